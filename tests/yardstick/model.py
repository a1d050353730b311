"""The model that the suite is served with: random weights, and a vocabulary cut down to the size of the hub's.

The suite's own model (stories260K) has a SentencePiece vocabulary of 512 pieces, BOS 1, and no chat template; its
prompts and contexts are sized for that. This one keeps the control and byte tokens, the printable characters and the
first merges of the vocabulary that llama.cpp's source carries, so most of the suite means the same here. What it
says is noise, always the same noise. It never ends an answer by itself: outputs of control and byte tokens are zero.
"""
import array
import random
import struct
import sys

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALAR = {U32: "I", I32: "i", F32: "f", BOOL: "?"}
ALIGNMENT = 32
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

VOCABULARY = 512
WIDTH, HEADS, KV_HEADS, LAYERS, HIDDEN = 64, 2, 1, 2, 128
CONTEXT = 32768
INFILL = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")  # llama.cpp finds them by their text


def read_vocabulary(path):
    """[(text, score, type)] of a SentencePiece vocabulary file."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:4] != b"GGUF":
        raise ValueError(f"{path}: not a GGUF")
    at = 4

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        (size,) = take("Q")
        at += size
        return data[at - size:at].decode()

    def value(kind):
        if kind == STRING:
            return text()
        if kind != ARRAY:
            return take(SCALAR[kind])[0]
        item, count = take("IQ")
        return [text() for _ in range(count)] if item == STRING else list(take(f"{count}{SCALAR[item]}"))

    _, _, values = take("IQQ")
    meta = {}
    for _ in range(values):
        key = text()
        meta[key] = value(take("I")[0])
    names = ("tokens", "scores", "token_type")
    return list(zip(*(meta[f"tokenizer.ggml.{name}"] for name in names)))


def cut(vocabulary):
    """The first merges whose parts are kept too, in the order of their scores; ids are dense again."""
    special = [entry for entry in vocabulary if entry[2] in (UNKNOWN, CONTROL, BYTE)]
    letters = [e for e in vocabulary if e[2] == NORMAL and len(e[0]) == 1 and (e[0] == "\u2581" or e[0].isascii())]
    room = VOCABULARY - len(special) - len(letters) - len(INFILL)
    known = {entry[0] for entry in letters}
    merges = []
    for entry in vocabulary:
        piece = entry[0]
        if len(merges) == room:
            break
        if entry[2] == NORMAL and piece.strip("\u2581") and any(piece[:i] in known and piece[i:] in known for i in range(1, len(piece))):
            known.add(piece)
            merges.append(entry)
    return special + merges + letters + [(piece, 0.0, CONTROL) for piece in INFILL]


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name, kind, value):
    head = _text(name) + struct.pack("<I", kind)
    return head + (_text(value) if kind == STRING else struct.pack("<" + SCALAR[kind], value))


def _list(name, kind, values):
    head = _text(name) + struct.pack("<IIQ", ARRAY, kind, len(values))
    if kind == STRING:
        return head + b"".join(map(_text, values))
    return head + struct.pack(f"<{len(values)}{SCALAR[kind]}", *values)


def _metadata(vocabulary):
    head = WIDTH // HEADS
    return [
        _key("general.architecture", STRING, "llama"), _key("general.name", STRING, "yardstick"),
        _key("llama.block_count", U32, LAYERS), _key("llama.context_length", U32, CONTEXT),
        _key("llama.embedding_length", U32, WIDTH), _key("llama.feed_forward_length", U32, HIDDEN),
        _key("llama.attention.head_count", U32, HEADS), _key("llama.attention.head_count_kv", U32, KV_HEADS),
        _key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), _key("llama.rope.dimension_count", U32, head),
        _key("llama.vocab_size", U32, len(vocabulary)),
        _key("tokenizer.ggml.model", STRING, "llama"), _key("tokenizer.ggml.pre", STRING, "default"),
        _list("tokenizer.ggml.tokens", STRING, [entry[0] for entry in vocabulary]),
        _list("tokenizer.ggml.scores", F32, [entry[1] for entry in vocabulary]),
        _list("tokenizer.ggml.token_type", I32, [entry[2] for entry in vocabulary]),
        _key("tokenizer.ggml.bos_token_id", U32, 1), _key("tokenizer.ggml.eos_token_id", U32, 2),
        _key("tokenizer.ggml.unknown_token_id", U32, 0),
        _key("tokenizer.ggml.add_bos_token", BOOL, True), _key("tokenizer.ggml.add_eos_token", BOOL, False),
    ]


def _tensors(vocabulary, rng):
    """(name, shape, values); shapes as GGUF has them, the contiguous dimension first."""
    def matrix(columns, rows, scale):
        return [rng.gauss(0, scale) for _ in range(columns * rows)]

    def dense(name, columns, rows):
        return name, (columns, rows), matrix(columns, rows, columns ** -0.5)

    kv = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", (WIDTH, len(vocabulary)), matrix(WIDTH, len(vocabulary), 1.0)
    for layer in range(LAYERS):
        yield f"blk.{layer}.attn_norm.weight", (WIDTH,), [1.0] * WIDTH
        yield dense(f"blk.{layer}.attn_q.weight", WIDTH, WIDTH)
        yield dense(f"blk.{layer}.attn_k.weight", WIDTH, kv)
        yield dense(f"blk.{layer}.attn_v.weight", WIDTH, kv)
        yield dense(f"blk.{layer}.attn_output.weight", WIDTH, WIDTH)
        yield f"blk.{layer}.ffn_norm.weight", (WIDTH,), [1.0] * WIDTH
        yield dense(f"blk.{layer}.ffn_gate.weight", WIDTH, HIDDEN)
        yield dense(f"blk.{layer}.ffn_up.weight", WIDTH, HIDDEN)
        yield dense(f"blk.{layer}.ffn_down.weight", HIDDEN, WIDTH)
    yield "output_norm.weight", (WIDTH,), [1.0] * WIDTH
    output = []
    for _, _, kind in vocabulary:
        output += matrix(WIDTH, 1, 2.0 * WIDTH ** -0.5) if kind == NORMAL else [0.0] * WIDTH
    yield "output.weight", (WIDTH, len(vocabulary)), output


def write(vocabulary_path, path, seed=1):
    vocabulary = cut(read_vocabulary(vocabulary_path))
    metadata = _metadata(vocabulary)
    tensors = list(_tensors(vocabulary, random.Random(seed)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata)
    data = bytearray()
    for name, shape, values in tensors:
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        floats = array.array("f", values)
        if sys.byteorder == "big":
            floats.byteswap()
        data += floats.tobytes()
        data += b"\0" * (-len(data) % ALIGNMENT)
    head += b"\0" * (-len(head) % ALIGNMENT)
    with open(path, "wb") as f:
        f.write(head + data)
    return path
