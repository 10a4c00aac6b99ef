"""Federated logistic regression on handwritten digits with Flower and scikit-learn, over a fading radio link.

Run it with `python app.py`, or with `flwr run . --federation-config num-supernodes=4` in this folder.
"""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from phyloop.flower import AirGrid

CLIENTS, ROUNDS = 4, 3
LINK = {
    "modulation": "qpsk",
    "channel": {"fading": "rayleigh", "coherence": "packet"},
    "power": {"policy": "fixed", "snr_max_db": 15},
    "packet_size_bytes": 256,
}
CODEC = {"name": "fixed-point", "fraction_bits": 10, "bound": 0.9}


def classifier(weights: list[np.ndarray] | None = None) -> SGDClassifier:
    """Return a linear classifier of ten digits with these weights; zero without them."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01, random_state=0)
    model.classes_ = np.arange(10)
    model.coef_, model.intercept_ = weights or (np.zeros((10, 64)), np.zeros(10))
    return model


def samples(of: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels: the training samples of one client, or the test samples."""
    x, y = load_digits(return_X_y=True)
    test = np.arange(len(y)) % 5 == 0
    return (x[test] / 16, y[test]) if of is None else (x[~test][of::CLIENTS] / 16, y[~test][of::CLIENTS])


client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train for one pass over the client's samples."""
    x, y = samples(int(context.node_config["partition-id"]))
    model = classifier(message.content["arrays"].to_numpy_ndarrays())
    model.partial_fit(x, y)
    content = {
        "arrays": ArrayRecord([model.coef_, model.intercept_]),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
    """Measure the server's model on the test samples."""
    return MetricRecord({"accuracy": float(classifier(arrays.to_numpy_ndarrays()).score(*samples()))})


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg over the radio."""
    out = context.run_config.get("out")
    air = AirGrid(grid, link=LINK, codec=CODEC, seed=1, out=Path(str(out)) if out else None)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    model = classifier()
    result = strategy.start(
        grid=air,
        initial_arrays=ArrayRecord([model.coef_, model.intercept_]),
        num_rounds=ROUNDS,
        evaluate_fn=evaluate,
    )
    print(air.link[["round", "sender", "bits", "bit_errors", "snr_db", "airtime_s"]].to_string(index=False))
    print("accuracy", [round(float(one["accuracy"]), 3) for one in result.evaluate_metrics_serverapp.values()])


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    run_simulation(server, client, num_supernodes=CLIENTS, backend_config={"client_resources": {"num_cpus": 2}})
