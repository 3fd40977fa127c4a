"""No test touches the cache of the person who runs it."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDSG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
