"""``rillet verify``: a model layer by layer against other implementations, which its frontend knows.

The model is compared as it is first, and then with intermediate values as further outputs, many at a time. Further
outputs change what fuses. Where only the unmodified model departs, the first departing value is therefore searched for
with few of them.
"""

from rillet.verify.verify import Finding, Report, bisect, verifiable, verify

__all__ = ["Finding", "Report", "bisect", "verifiable", "verify"]
