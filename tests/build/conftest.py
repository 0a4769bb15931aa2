"""What tests that train share."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """Sums in one order, so that two trainings can be equal to the bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """Coloured squares to learn, the same for a whole file of tests."""
    from training_toys import lesson_in

    return lesson_in(tmp_path_factory.mktemp("photos"))
