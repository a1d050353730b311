"""Just enough of the GGUF format to write a LoRA adapter with random weights for a model file."""
import random
import struct

# value types
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SIZES = {U8: 1, I8: 1, U16: 2, I16: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, I64: 8, F64: 8}
ALIGNMENT = 32


class Reader:
    """The metadata strings and the tensor shapes of a file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self._f = f
            if f.read(4) != b"GGUF":
                raise ValueError(f"{path}: not a GGUF")
            _, tensors, values = self._unpack("<IQQ")
            self.strings = {}
            for _ in range(values):
                key, kind = self._string(), self._unpack("<I")[0]
                value = self._skip(kind)
                if kind == STRING:
                    self.strings[key] = value
            self.shapes = {}
            for _ in range(tensors):
                name = self._string()
                dimensions = self._unpack("<I")[0]
                self.shapes[name] = self._unpack(f"<{dimensions}Q")
                self._unpack("<IQ")

    def _unpack(self, form):
        return struct.unpack(form, self._f.read(struct.calcsize(form)))

    def _string(self):
        return self._f.read(self._unpack("<Q")[0]).decode()

    def _skip(self, kind):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            item, count = self._unpack("<IQ")
            if item == STRING:
                for _ in range(count):
                    self._string()
            else:
                self._f.seek(SIZES[item] * count, 1)
            return None
        self._f.seek(SIZES[kind], 1)
        return None


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def write_lora(model_path, path, seed, tensors=("blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.1.ffn_down.weight"),
               rank=4, strength=0.5):
    """A rank-4 adapter on a few matrices, strong enough to change what the model says."""
    model = Reader(model_path)
    rng = random.Random(seed)
    parts = []
    for name in tensors:
        width, height = model.shapes[name]
        parts.append((f"{name}.lora_a", (width, rank), strength / width ** 0.5))
        parts.append((f"{name}.lora_b", (rank, height), strength))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(parts), 4)
    for key, value in (("general.type", "adapter"), ("general.architecture", model.strings["general.architecture"]),
                       ("adapter.type", "lora")):
        head += _text(key) + struct.pack("<I", STRING) + _text(value)
    head += _text("adapter.lora.alpha") + struct.pack("<If", F32, float(rank))
    data = b""
    for name, (a, b), scale in parts:
        head += _text(name) + struct.pack("<IQQIQ", 2, a, b, 0, len(data))
        data += struct.pack(f"<{a * b}f", *(rng.gauss(0, scale) for _ in range(a * b)))
        data += b"\0" * (-len(data) % ALIGNMENT)
    head += b"\0" * (-len(head) % ALIGNMENT)
    with open(path, "wb") as f:
        f.write(head + data)
    return path
