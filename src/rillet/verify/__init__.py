"""``rillet verify``: a model layer by layer against other implementations, which its frontend knows.

First the model as it is. Then with intermediate values as further outputs, many at a time: this changes what fuses, so
where only the unmodified model departs, the first departing value is searched with few extra outputs instead.
"""

from rillet.verify.verify import Finding, Report, bisect, verifiable, verify

__all__ = ["Finding", "Report", "bisect", "verifiable", "verify"]
