#!/usr/bin/env bash
# SigMF 1.14.0 (Python): reads by capture skip headers twice, and count `core:offset` as samples of the file.
#
# The specification (1.2.5) has `core:header_bytes` before the first sample of a capture, and `core:offset` as the index of
# the first sample of the recording, from which `core:sample_start` counts on. A recording of two captures of eight
# samples, with headers of 16 and 8 bytes, comes back four samples late in its first capture, with the second header among
# the samples, and short in the second; `read_samples` returns that header as samples. With an offset of 2 the capture
# that starts at sample 2, the first one of the file, lacks two samples.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet SigMF==1.14.0 numpy==2.4.6
(cd "$folder" && venv/bin/python - > found) <<'PROGRAM'
import json

import numpy as np
import sigmf


def recording(name, content, captures, **facts):
    with open(f"{name}.dat", "wb") as file:
        file.write(content)
    common = {"core:datatype": "rf32_le", "core:version": "1.2.5", "core:dataset": f"{name}.dat", "core:num_channels": 1}
    with open(f"{name}.sigmf-meta", "w") as file:
        json.dump({"global": {**common, **facts}, "captures": captures, "annotations": []}, file)
    return sigmf.fromfile(f"{name}.sigmf-meta", skip_checksum=True)


one, two = np.arange(8, dtype=np.float32), np.arange(100, 108, dtype=np.float32)
content = bytes(16) + one.tobytes() + bytes(8) + two.tobytes()
starts = [{"core:sample_start": 0, "core:header_bytes": 16}, {"core:sample_start": 8, "core:header_bytes": 8}]
headed = recording("headed", content, starts)
for capture, meant in enumerate((one, two)):
    print(f"capture {capture}, meant", meant.astype(int).tolist(), "read", headed.read_samples_in_capture(capture).tolist())
print("all", headed.read_samples().tolist())
later = recording("later", one.tobytes(), [{"core:sample_start": 2}], **{"core:offset": 2})
print("offset 2, capture from 2", later.read_samples_in_capture(0).tolist())
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
capture 0, meant [0, 1, 2, 3, 4, 5, 6, 7] read [4.0, 5.0, 6.0, 7.0, 0.0, 0.0, 100.0, 101.0]
capture 1, meant [100, 101, 102, 103, 104, 105, 106, 107] read [104.0, 105.0, 106.0, 107.0]
all [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0, 100.0, 101.0, 102.0, 103.0, 104.0, 105.0]
offset 2, capture from 2 [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
SEEN
