"""Two paths of fixed strength, the second one late and moving: the simplest channel that selects frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from phy.config.channel_source import ChannelSource, channel_sources

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@channel_sources.register
class TwoPath(ChannelSource):
    """Two paths: H(f) = (1 + g exp(i phi - 2 pi i f tau)) / sqrt(1 + g^2), where phi moves with `beat_hz`.

    The second path comes `delay_samples` late, at `second_db` over the first; its phase is drawn for every device.
    """

    name: Literal["two-path"] = "two-path"
    delay_samples: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        default=10, description="delay of the second path, in samples of sample_rate_hz"
    )
    second_db: Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)] = Field(
        default=-3.0, description="power of the second path over that of the first [dB]"
    )
    beat_hz: Annotated[float, Field(ge=-1e5, le=1e5, allow_inf_nan=False)] = Field(
        default=10.0,
        description="frequency at which the two paths beat, the Doppler shift of the second over the first [Hz]",
    )

    def taps(self, snapshot: int, *, devices: NDArray[np.int64], time_s: float) -> NDArray[Any]:
        """See `ChannelSource.taps`."""
        import numpy as np

        del snapshot
        ratio = 10.0 ** (self.second_db / 20.0)
        drawn = np.array([np.random.default_rng((self.seed, int(one))).random() for one in devices])
        late = ratio * np.exp(2j * np.pi * (drawn + self.beat_hz * time_s))
        found = np.zeros((len(devices), 1, self.delay_samples + 1), np.complex128)
        found[:, 0, 0] = 1.0
        found[:, 0, self.delay_samples] += late
        return np.asarray(found / np.sqrt(1.0 + ratio**2))
