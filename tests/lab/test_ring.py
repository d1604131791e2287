"""Ranks in a ring: messages arrive in order, and what would hang or mix up processes is always the same error of threads."""

import threading

import pytest
import torch
import torch.distributed as dist

from utils.distributed.launch import on_ranks
from utils.lab.ring import GlooLink, on_threads


def two_messages(link) -> tuple:
    """Sends rank and a pair to the right; what comes from the left, and what was sent."""
    link.send(torch.tensor(link.rank))
    link.send(torch.tensor([link.rank, 10.0]))
    first = link.receive(like=torch.tensor(0))
    second = link.receive(like=torch.zeros(2))
    return first.item(), second.tolist(), link.sent


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_messages_go_to_the_right_and_arrive_in_their_order(world):
    lefts = [(rank - 1) % world for rank in range(world)]
    assert on_threads(world, two_messages) == [(left, [left, 10.0], [1, 2]) for left in lefts]


def test_ranks_are_threads_of_their_own_and_a_message_is_a_copy():
    def run(link):
        own = torch.zeros(2, requires_grad=True)
        link.send(own)
        with torch.no_grad():
            own += 1
        came = link.receive(like=own)
        return threading.current_thread(), came.tolist(), came.requires_grad

    threads, *facts = zip(*on_threads(3, run), strict=True)
    assert len({threading.current_thread(), *threads}) == 4 and facts == [([0, 0],) * 3, (False,) * 3]


def test_a_message_that_never_comes_is_an_error_at_once():
    with pytest.raises(RuntimeError, match="rank 0 of 3 waits for a message that never comes"):
        on_threads(3, lambda link: link.receive(like=torch.zeros(1)))
    with pytest.raises(RuntimeError, match="rank 1 of 2 waits"):
        on_threads(2, lambda link: link.rank and link.receive(like=torch.zeros(1)))


def test_waiting_is_no_error_while_a_message_is_under_way():
    def run(link):
        token = torch.zeros(1)
        for _ in range(300):  # one token goes round: all ranks but one wait, most of the time
            if link.rank > 0:
                token = link.receive(like=token)
            link.send(token + 1)
            if link.rank == 0:
                token = link.receive(like=token)
        return token.item()

    assert on_threads(3, run) == [900, 898, 899]


def test_a_message_of_another_kind_is_an_error():
    def run(link):
        link.send(torch.zeros(2))
        return link.receive(like=torch.zeros(2, dtype=torch.float64 if link.rank else torch.float32))

    with pytest.raises(ValueError, match=r"rank 1 of 2 expects float64 of shape \(2,\), and the message is float32"):
        on_threads(2, run)


def test_a_message_that_nobody_reads_is_an_error():
    with pytest.raises(RuntimeError, match=r"unread, by rank: {0: 1, 1: 1}"):
        on_threads(2, lambda link: link.send(torch.zeros(1)))


def test_the_rank_that_failed_is_blamed_and_not_those_that_wait_for_it():
    def run(link):
        if link.rank == 3:  # rank 0 will wait for it
            raise NotImplementedError("yours")
        link.send(torch.zeros(1))
        return link.receive(like=torch.zeros(1))

    for _ in range(20):
        with pytest.raises(NotImplementedError, match="yours"):
            on_threads(4, run)


def test_a_hook_may_wait_for_another_rank_during_its_backward():
    def run(link):
        w = torch.ones(1, requires_grad=True)

        def swap(p):
            link.send(p.grad)
            p.grad.copy_(link.receive(like=p.grad))

        w.register_post_accumulate_grad_hook(swap)
        (w * link.rank).sum().backward()
        return w.grad.item()

    assert on_threads(3, run) == [2, 0, 1]


def in_a_process() -> tuple:
    """The same messages, and an empty one between them, over gloo."""
    link = GlooLink()
    link.send(torch.zeros(0))
    result = link.receive(like=torch.zeros(0)).tolist(), two_messages(link)
    link.finish()
    return result, (link.rank, link.world) == (dist.get_rank(), dist.get_world_size())


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_processes_use_the_same_line(world):
    ended = [rank.result for rank in on_ranks(world, in_a_process)]
    lefts = [(rank - 1) % world for rank in range(world)]
    assert ended == [(([], (left, [left, 10.0], [0, 1, 2])), True) for left in lefts]
