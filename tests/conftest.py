"""What every test stands on: a cache of its own, so that no run sees what another one kept."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDSG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
