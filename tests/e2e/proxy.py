"""A TCP proxy whose cable can be pulled: connections end, new ones are refused, until it is plugged in again."""
import socket
import threading

from process import free_port


class Proxy:
    def __init__(self, target_port):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._target = target_port
        self._lock = threading.Lock()
        self._listener = None
        self._open = set()
        self.plug()

    def plug(self):
        listener = socket.create_server(("127.0.0.1", self.port))
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def pull(self):
        with self._lock:
            ends, self._open = self._open, set()
            listener, self._listener = self._listener, None
        if listener:
            _end(listener)
        for end in ends:
            _end(end)

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _end(near)
                continue
            with self._lock:
                alive = self._listener is listener
                if alive:
                    self._open |= {near, far}
            if not alive:
                _end(near)
                _end(far)
                return
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        with self._lock:
            self._open -= {source, sink}
        _end(source)
        _end(sink)


def _end(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
