"""What the machine draws its requests from."""

from hypothesis import strategies as st

from tests.support.builders import spec, units
from xmcloud.core.models import Outcome
from xmcloud.core.protocol import Stop

POOLS = ("local", "big")
QUEUES = ("high", "default", "slow")

specs = st.builds(
    spec,
    pool=st.sampled_from(("", *POOLS)),
    resources=st.sampled_from(({}, {"cpu": 1.0}, {"cpu": 2.0}, {"gpu": 1.0})),
    retries=st.integers(0, 1),
    infrastructure_retries=st.integers(0, 2),
)
batches = st.tuples(
    st.lists(specs, min_size=1, max_size=3), st.sampled_from((*QUEUES, "default", None))
).map(lambda drawn: units(*drawn[0], queue=drawn[1]))
stops = st.builds(
    Stop, outcome=st.sampled_from((Outcome.STOPPED, Outcome.FAILED, Outcome.COMPLETED))
)
outcomes = st.sampled_from((Outcome.COMPLETED, Outcome.COMPLETED, *Outcome))
