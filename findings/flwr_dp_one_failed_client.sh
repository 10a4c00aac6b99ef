#!/usr/bin/env bash
# Flower 1.41.0: with server-side differential privacy, one failed client discards the updates of all others.
#
# `FedAvg.aggregate_train` averages the replies that have content and logs the others. Inside
# `DifferentialPrivacyServerSideFixedClipping` the same replies give (None, None): the round is lost, and the strategy
# keeps the earlier model. Over a link that loses packets, such as one with a packet error rate of 5 % and 20 clients,
# two rounds in three end that way (1 - 0.95^20 = 0.64).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet flwr==1.41.0
"$folder/bin/python" - > "$folder/found" 2> /dev/null <<'PROGRAM'
import numpy as np
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # what the process of a ServerApp knows


def arrays(value):
    return ArrayRecord({"w": Array(np.full(3, value, np.float32))})


def replies():
    for node in range(1, 5):
        sent = Message(RecordDict({"arrays": arrays(0.0)}), node, "train")
        metrics = MetricRecord({"num-examples": 10})
        content = RecordDict({"arrays": arrays(1.0), "metrics": metrics})
        yield Message(Error(1, "packet lost") if node == 4 else content, reply_to=sent)


for name, strategy in {
    "FedAvg": FedAvg(),
    "with differential privacy": DifferentialPrivacyServerSideFixedClipping(
        FedAvg(), noise_multiplier=1e-6, clipping_norm=10.0, num_sampled_clients=4
    ),
}.items():
    strategy.current_arrays = arrays(0.0)
    model, _ = strategy.aggregate_train(1, list(replies()))
    print(name, "of 3 updates and 1 error:", None if model is None else model["w"].numpy().round(3))
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
FedAvg of 3 updates and 1 error: [1. 1. 1.]
with differential privacy of 3 updates and 1 error: None
SEEN
