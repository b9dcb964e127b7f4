"""An operator named in a config, with its options."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """A registered name or `module:function`, and keyword arguments for it."""

    name: str
    """Of a registered operator, or `module:function`."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its keyword arguments; unknown ones are refused."""
