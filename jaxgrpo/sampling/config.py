"""What distribution completions are drawn from, and how long they may get."""

import dataclasses

# Beyond these, float32 logits divided by it are all alike, or no longer finite.
_COLDEST, _HOTTEST = 1e-4, 1e4


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """The sampled distribution; the defaults are the policy itself, untouched."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the most likely token."""
    top_k: int = 0
    """Keep that many most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens with at least this probability; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this likely relative to the most likely one; 0 keeps all."""
    max_new_tokens: int = 64
    """Completions end there, in tokens, the stop token included."""
    decode_chunk: int = 32
    """Tokens decoded between two looks of the host at whether all rows are done."""
    length_buckets: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    """Prompts are padded to the first of these that holds them: so many programs are compiled."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if self.temperature and not _COLDEST <= self.temperature <= _HOTTEST:
            raise ValueError(
                f"temperature must be 0 or in [{_COLDEST:g}, {_HOTTEST:g}], got {self.temperature}"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k must not be negative, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in [0, 1], got {self.min_p}")
        for name in ("max_new_tokens", "decode_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("top_k", "max_new_tokens", "decode_chunk"):
            if getattr(self, name) >= 2**31:
                raise ValueError(f"{name} must be below 2**31, got {getattr(self, name)}")
        if not self.length_buckets or list(self.length_buckets) != sorted(set(self.length_buckets)):
            raise ValueError(f"length_buckets must rise, got {self.length_buckets}")
        if self.length_buckets[0] < 1:
            raise ValueError(f"length_buckets must be at least 1, got {self.length_buckets}")

    @property
    def truncated(self) -> bool:
        """Whether some tokens can't be sampled: then this isn't the policy's own distribution."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0 or self.temperature == 0

    def bucket(self, length: int) -> int:
        """The length that a prompt of this many tokens is padded to.

        Example:
          >>> SamplingConfig().bucket(17)
          32
        """
        return next((size for size in self.length_buckets if size >= length), length)
