"""Forward error correction, and the policy for packets in error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from phy.config.base import CodeRate, Frozen, word_or_mapping
from phy.config.conflict import ConflictError, LeaveOut, Write

CodeName = Literal["repetition", "convolutional", "turbo", "polar5g", "ldpc5g"]
LdpcUpdate = Literal["boxplus-phi", "boxplus", "minsum", "offset-minsum"]
CodingStandard = Literal["3gpp", "sionna"]


_OWNERS: dict[str, tuple[CodeName, ...]] = {
    "iterations": ("ldpc5g", "turbo"),
    "check_update": ("ldpc5g",),
    "list_size": ("polar5g",),
    "constraint_length": ("convolutional",),
    "standard": ("ldpc5g", "polar5g", "turbo", "convolutional"),
    "redundancy_version": ("ldpc5g", "turbo"),
    "transport_block": ("ldpc5g",),
    "tbs_lbrm_bits": ("ldpc5g",),
}
_OTHER_IN_SIONNA: tuple[CodeName, ...] = ("ldpc5g", "polar5g", "turbo")
"""Codes of a standard that Sionna 1.2.2 has with other lengths, bits or base graphs."""
_OF_3GPP = ("redundancy_version", "transport_block", "tbs_lbrm_bits")
"""Keys whose values other than the default only standard 3gpp has."""


LARGEST_FUSED_LIST = 16
"""The fused decoder of polar codes holds the bits of all paths at a position in 16 bits."""


class ScramblingConfig(Frozen):
    """Scrambling of coded bits as on the uplink data channel, TS 38.211 6.3.1.1; all devices have the same n_RNTI."""

    n_rnti: Annotated[int, Field(ge=0, le=65535, strict=True)] = Field(
        default=1, description="radio network temporary identifier of the device; 1 is the first that a cell may give"
    )
    n_id: Annotated[int, Field(ge=0, le=1023, strict=True)] = Field(
        default=0, description="scrambling identity; 0 as of cell 0"
    )


Scrambling = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[ScramblingConfig, Tag("mapping")],
    Discriminator(word_or_mapping),
]


class CodingConfig(Frozen):
    """One channel code; a key of another code must keep its default.

    - `repetition`: the block repeated cyclically to any rate, soft combining;
    - `convolutional`: terminated, of `constraint_length` and the largest free distance, Viterbi on soft values; rates
      1/2 and 1/3;
    - `turbo`: 3GPP TS 36.212 5.1.2 to 5.1.4.1, BCJR; any rate up to 0.93;
    - `polar5g`: TS 38.212 6.3.1, uplink control, SC list decoding with the code's own CRC; rates up to 9/10;
    - `ldpc5g`: TS 38.212 5.3.2, layered belief propagation (by Sionna flooding); rates up to 948/1024.

    Under `standard: sionna` turbo has rates 1/3 and 1/2 alone, and polar5g rates from 1/8 and no parity-check bits.
    """

    code: CodeName = Field(description="channel code; ldpc5g and polar5g: 3GPP TS 38.212, turbo: TS 36.212")
    rate: CodeRate = Field(
        default=0.5, description="information bits over coded bits, such as 1/2; 1/2 is usual, and every code has it"
    )
    block_length: Literal["auto"] | Annotated[int, Field(ge=8, le=8448, strict=True)] = Field(
        default="auto", description="information bits in one code block; auto: as few and equal blocks as fit"
    )
    iterations: Annotated[int, Field(ge=1, le=200, strict=True)] = Field(
        default=20, description="decoder iterations (ldpc5g, turbo); 20 as in Sionna's LDPC decoder"
    )
    check_update: LdpcUpdate = Field(
        default="boxplus-phi",
        description="check-node rule of the ldpc5g decoder; boxplus-phi, Sionna's default, is exact",
    )
    list_size: Annotated[int, Field(ge=1, le=32, strict=True)] = Field(
        default=8,
        description="list size of the polar5g decoder; 1 is successive cancellation; 8 is usual, and Sionna's default",
    )
    constraint_length: Annotated[int, Field(ge=3, le=8, strict=True)] = Field(
        default=5,
        description="constraint length (convolutional); 5 is a convention: 16 states, a moderate load for Viterbi",
    )
    standard: CodingStandard = Field(
        default="3gpp",
        description="3gpp: TS 38.212 for ldpc5g and polar5g, TS 36.212 for turbo, tabulated polynomials for "
        "convolutional; sionna: the conventions of Sionna 1.2.2, with which published curves of Sionna are made",
    )
    redundancy_version: Annotated[int, Field(ge=0, le=3, strict=True)] = Field(
        default=0,
        description="redundancy version of the first attempt (ldpc5g and turbo under 3gpp): where in the circular "
        "buffer of TS 38.212 5.4.2.1 or TS 36.212 5.1.4.1.2 it starts; 0 has the information bits",
    )
    transport_block: Literal["payload", "ts38214"] = Field(
        default="payload",
        description="bits of a packet before its CRC (ldpc5g under 3gpp): those of the payload, or the next size of "
        "TS 38.214 5.1.3.2, filled with zeros; payload adds nothing",
    )
    tbs_lbrm_bits: Annotated[int, Field(ge=24, le=1 << 24, strict=True)] | None = Field(
        default=None,
        description="TBS_LBRM of TS 38.212 5.4.2.1 (ldpc5g under 3gpp), which limits the circular buffer [bits]; no "
        "limit if left out",
    )
    scrambling: Scrambling = Field(
        default="none",
        description="none, or {n_rnti: .., n_id: ..}: coded bits scrambled by the Gold sequence of TS 38.211 5.2.1; "
        "payloads are random bits without it too",
    )
    interleaver: Literal["none", "random"] = Field(
        default="none",
        description="permutation of the coded bits of a packet, across its code blocks; none: codes of 5G "
        "interleave within a block",
    )
    demapper: Literal["app", "maxlog"] = Field(
        default="app", description="soft bits exact (app) or by max-log; app loses nothing"
    )

    @property
    def fusible(self) -> bool:
        """True if engine `fused` supports the code: all but lists of 32 and min-sum rules of LDPC.

        Min-sum rules stay with Sionna: their losses are wanted, and the fused decoder does not have them.
        """
        return self.list_size <= LARGEST_FUSED_LIST and self.check_update in ("boxplus", "boxplus-phi")

    @property
    def only_in_kernels(self) -> bool:
        """True if Sionna's blocks do not have the code: by the standard it differs from theirs."""
        return self.standard == "3gpp" and self.code in _OTHER_IN_SIONNA

    @property
    def cuts_by_standard(self) -> bool:
        """True if TS 38.212 5.2.2 and 5.4.2 give the code blocks and their lengths."""
        return self.code == "ldpc5g" and self.standard == "3gpp"

    @model_validator(mode="after")
    def _keys_belong_to_the_standard(self) -> CodingConfig:
        for key in _OF_3GPP:
            value = getattr(self, key)
            if self.standard == "sionna" and value != type(self).model_fields[key].default:
                raise ConflictError(
                    f"{key} standard",
                    f"{key} {value} is of standard 3gpp, the standard is sionna",
                    LeaveOut(key),
                    Write({"standard": "3gpp"}),
                )
        if self.only_in_kernels and self.list_size > LARGEST_FUSED_LIST:
            raise ConflictError(
                "list_size standard",
                f"list_size {self.list_size} is of Sionna's decoder, which has codes of standard sionna only",
                Write({"standard": "sionna"}),
                Write({"list_size": LARGEST_FUSED_LIST}, note="or less"),
            )
        if not self.cuts_by_standard:
            return self
        if self.check_update in ("minsum", "offset-minsum"):
            raise ConflictError(
                "check_update standard",
                f"check_update {self.check_update} is of Sionna's decoder, which has codes of standard sionna only",
                Write({"standard": "sionna"}),
                Write({"check_update": "boxplus"}),
            )
        if self.block_length != "auto":
            raise ConflictError(
                "block_length standard",
                f"block_length {self.block_length} is not free under standard 3gpp: TS 38.212 5.2.2 cuts a packet",
                LeaveOut("block_length"),
                Write({"standard": "sionna"}),
            )
        return self

    @model_validator(mode="after")
    def _list_is_a_power_of_two(self) -> CodingConfig:
        if self.list_size & (self.list_size - 1):
            raise ConflictError(
                "list_size", f"list_size {self.list_size} must be a power of two up to 32", Write({"list_size": 8})
            )
        return self

    @model_validator(mode="after")
    def _keys_belong_to_the_code(self) -> CodingConfig:
        for key in sorted(self.model_fields_set & _OWNERS.keys()):
            owners, value = _OWNERS[key], getattr(self, key)
            if self.code not in owners and value != type(self).model_fields[key].default:
                raise ConflictError(
                    f"{key} code",
                    f"{key} {value} is of {' and '.join(owners)}, the code is {self.code}",
                    LeaveOut(key),
                    Write({"code": owners[0]}),
                )
        return self


class PacketConfig(Frozen):
    """The link layer: a CRC per packet, and the policy for packets whose CRC fails.

    - `accept`: the receiver keeps every packet, wrong or not;
    - `drop`: a packet whose CRC fails is thrown away, and the receiver knows which bits are missing;
    - `retransmit`: it is sent again, up to `max_retransmissions` times, each attempt decoded alone; if all
      fail it is dropped;
    - `retransmit-combine`: the same with the soft values of all attempts added: of the same bits (Chase combining),
      or of redundancy versions 0, 2, 3 and 1 in turn (incremental redundancy, TS 38.212 5.4.2.1).
    """

    policy: Literal["accept", "drop", "retransmit", "retransmit-combine"] = Field(
        default="accept",
        description="use of packets whose CRC fails; accept: wrong bits reach the model, as in Li et al. 2025",
    )
    crc: Literal["auto", "none", "crc6", "crc11", "crc16", "crc24a"] = Field(
        default="auto",
        description="generator polynomial of TS 38.212 5.1; auto: none under accept, else CRC16 up to 3824 bits and "
        "CRC24A above",
    )
    combining: Literal["chase", "incremental-redundancy"] = Field(
        default="chase",
        description="bits of a retransmission under retransmit-combine: the same ones, which every code has, or other "
        "bits of the circular buffer (ldpc5g under 3gpp)",
    )
    max_retransmissions: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=3, description="attempts after the first, at most; 3 is a convention: 4 attempts in all"
    )

    @model_validator(mode="after")
    def _errors_are_noticed(self) -> PacketConfig:
        if self.policy != "accept" and self.crc == "none":
            raise ConflictError(
                "policy", f"policy {self.policy} notices packets in error by their CRC", LeaveOut("crc")
            )
        return self

    @model_validator(mode="after")
    def _combining_is_of_combined_attempts(self) -> PacketConfig:
        if self.combining != "chase" and self.policy != "retransmit-combine":
            raise ConflictError(
                "combining policy",
                f"combining {self.combining} is of policy retransmit-combine, the policy is {self.policy}",
                LeaveOut("combining"),
                Write({"policy": "retransmit-combine"}),
            )
        return self

    def crc_name(self, payload_bits: int) -> str | None:
        """CRC of a packet of `payload_bits`, None without one."""
        if self.crc == "auto":
            if self.policy == "accept":
                return None
            return "crc16" if payload_bits <= 3824 else "crc24a"
        return None if self.crc == "none" else self.crc


CRC_POLYNOMIALS = {
    "crc6": (6, 5, 0),
    "crc11": (11, 10, 9, 5, 0),
    "crc16": (16, 12, 5, 0),
    "crc24a": (24, 23, 18, 17, 14, 11, 10, 7, 6, 5, 4, 3, 1, 0),
    "crc24b": (24, 23, 6, 5, 1, 0),
}
"""Powers of x in the generator polynomials of TS 38.212 5.1; crc24b is that of code blocks."""
CRC_BITS = {name: powers[0] for name, powers in CRC_POLYNOMIALS.items() if name != "crc24b"}
