"""Federated collections of TensorFlow Federated in SQLite, plain or LZMA, without TensorFlow.

Table `examples` has `split_name`, `client_id` and `serialized_example_proto`, a `tf.Example` with pixels (28 x 28
float32, 1.0 for the paper and 0.0 for ink) and a label (int64), as version 0.87 of that library writes its EMNIST.
"""

from __future__ import annotations

import lzma
import sqlite3
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fl.data.arrays import reading
from fl.data.files.parts import MOST_BYTES, FilePart, refuse

_FLOATS, _WHOLE = "float_list", "int64_list"


def read_tff(path: Path) -> FilePart:
    """Return the samples of all clients, `train` to train on and `test` to test on.

    LearningError for another layout.
    """
    with tempfile.TemporaryDirectory() as folder, reading("SQLite file of TensorFlow Federated", source=path):
        plain = path
        if path.suffix.lower() == ".lzma":
            plain = Path(folder) / "examples.sqlite"
            _unpack(path, plain)
        connection = sqlite3.connect(f"file:{plain}?mode=ro&immutable=1", uri=True)
        try:
            rows = connection.execute(
                "SELECT split_name, client_id, serialized_example_proto FROM examples ORDER BY client_id, rowid"
            ).fetchall()
        finally:
            connection.close()
        example = _example_class()
        x, y = [], []
        for _, _, content in rows:
            features = example.FromString(content).features.feature
            numbers = {name: getattr(one, one.WhichOneof("kind")).value for name, one in features.items()}
            label = "label" if "label" in numbers else "labels"
            y.append(int(numbers.pop(label)[0]))
            (pixels,) = [value for name, value in sorted(numbers.items()) if name in ("pixels", "image", "features")]
            x.append(np.asarray(pixels, np.float32))
        values = np.stack(x)
    if values.shape[1] == 28 * 28:
        values = values.reshape(-1, 28, 28, 1)
    owner = np.array([one.decode() if isinstance(one, bytes) else str(one) for _, one, _ in rows])
    return FilePart(x=values, y=np.array(y), owner=owner, is_test=np.array([split == "test" for split, _, _ in rows]))


def _unpack(path: Path, out: Path) -> None:
    size = 0
    with lzma.open(path) as packed, out.open("wb") as file:
        while chunk := packed.read(1 << 20):
            size += len(chunk)
            if size > MOST_BYTES:
                refuse(path, f"it unpacks to more than {MOST_BYTES >> 30} GiB", "write fewer clients")
            file.write(chunk)


@lru_cache(maxsize=1)
def _example_class() -> Any:
    """`tf.Example`, by its published field numbers, in protobuf's own reader."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool, kinds = descriptor_pool.DescriptorPool(), descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="phyloop_example", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, int, str | None], inside: Any = None) -> Any:
        made = (file.message_type if inside is None else inside.nested_type).add(name=name)
        for key, number, kind, label, type_name in fields:
            made.field.add(name=key, number=number, type=kind, label=label, type_name=type_name)
        return made

    one, many, sub = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE
    message("BytesList", ("value", 1, kinds.TYPE_BYTES, many, None))
    message("FloatList", ("value", 1, kinds.TYPE_FLOAT, many, None))
    message("Int64List", ("value", 1, kinds.TYPE_INT64, many, None))
    feature = message(
        "Feature",
        ("bytes_list", 1, sub, one, ".phyloop_example.BytesList"),
        (_FLOATS, 2, sub, one, ".phyloop_example.FloatList"),
        (_WHOLE, 3, sub, one, ".phyloop_example.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message("Features", ("feature", 1, sub, many, ".phyloop_example.Features.FeatureEntry"))
    entry = message(
        "FeatureEntry",
        ("key", 1, kinds.TYPE_STRING, one, None),
        ("value", 2, sub, one, ".phyloop_example.Feature"),
        inside=features,
    )
    entry.options.map_entry = True
    message("Example", ("features", 1, sub, one, ".phyloop_example.Features"))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("phyloop_example.Example"))
