"""Federated training of a small network with batch normalisation, Flower and PyTorch, over a coded radio link.

Packets with an error are lost; their numbers keep the value of the server. Run it with `python app.py`, or with
`flwr run . --federation-config num-supernodes=4` in this folder.
"""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits
from torch import nn

from phyloop.flower import AirGrid

CLIENTS, ROUNDS = 4, 3
LINK = {
    "modulation": "16qam",
    "coding": {"code": "ldpc5g", "rate": 0.5},
    "channel": {"fading": "rayleigh", "coherence": "packet"},
    "power": {"policy": "fixed", "snr_max_db": 18},
    "packets": {"policy": "drop"},
    "packet_size_bytes": 256,
}


def network() -> nn.Module:
    """Return the network with the same initial weights everywhere."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def samples(of: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels: the training samples of one client, or the test samples."""
    x, y = (torch.from_numpy(one) for one in load_digits(return_X_y=True))
    test = torch.arange(len(y)) % 5 == 0
    x, y = (x[test], y[test]) if of is None else (x[~test][of::CLIENTS], y[~test][of::CLIENTS])
    return x.float() / 16, y


client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train for five passes over the client's samples."""
    x, y = samples(int(context.node_config["partition-id"]))
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in torch.arange(len(y)).split(32) * 5:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
    """Measure the server's model on the test samples."""
    model = network().eval()
    model.load_state_dict(arrays.to_torch_state_dict())
    x, y = samples()
    return MetricRecord({"accuracy": (model(x).argmax(dim=1) == y).float().mean().item()})


@server.main()
def main(grid: Grid, _: Context) -> None:
    """Run FedAvg over the radio."""
    air = AirGrid(grid, link=LINK, lost="previous", seed=1)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    result = strategy.start(
        grid=air, initial_arrays=ArrayRecord(network().state_dict()), num_rounds=ROUNDS, evaluate_fn=evaluate
    )
    print(air.link[["round", "sender", "lost", "packets", "dropped", "airtime_s"]].to_string(index=False))
    print("accuracy", [round(float(one["accuracy"]), 3) for one in result.evaluate_metrics_serverapp.values()])


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    run_simulation(server, client, num_supernodes=CLIENTS, backend_config={"client_resources": {"num_cpus": 2}})
