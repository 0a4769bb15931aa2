"""Reads from a `.pte` file which delegates and kernels a method calls, without ExecuTorch's exporter.

A `.pte` is a flatbuffer (`schema/program.fbs` of ExecuTorch) with its segments behind it. Only a few tables are of interest, so
they are walked by hand: a table is a signed offset to its vtable, which gives for each field the offset inside the table.
"""

import dataclasses
import mmap
import struct
from collections.abc import Iterator

__all__ = ["Plan", "read_plans"]

PROGRAM_PLANS = 1
PLAN_NAME, PLAN_CHAINS, PLAN_OPERATORS, PLAN_DELEGATES = 0, 5, 6, 7
CHAIN_INSTRUCTIONS = 2
INSTRUCTION_KIND, INSTRUCTION_ARGUMENTS = 0, 1
KERNEL_CALL, DELEGATE_CALL = 1, 2
FIRST_FIELD = 0
"""Name of an operator, id of a delegate, index in a call: each the first field of its table."""

Buffer = bytes | mmap.mmap


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """One method.

    Attributes:
        name: such as `forward`.
        delegate_calls: id of the backend of each delegate call, in order.
        kernel_calls: name of each portable kernel that is called, in order.
    """

    name: str
    delegate_calls: tuple[str, ...]
    kernel_calls: tuple[str, ...]


def read_plans(data: Buffer) -> tuple[Plan, ...]:
    """Bytes of a `.pte` -> its methods.

    Raises:
        ValueError: not a program of ExecuTorch, or cut short.
    """
    if data[4:6] != b"ET":
        raise ValueError("no ExecuTorch program: the file identifier is missing")
    try:
        program = _indirect(data, 0)
        plans = tuple(_plan(data, table) for table in _tables(data, program, PROGRAM_PLANS))
    except (IndexError, struct.error) as error:
        raise ValueError(f"the program is cut short: {error}") from error
    if not plans:
        raise ValueError("the program has no methods")
    return plans


def _plan(data: Buffer, plan: int) -> Plan:
    operators = [_text(data, table, FIRST_FIELD) for table in _tables(data, plan, PLAN_OPERATORS)]
    delegates = [_text(data, table, FIRST_FIELD) for table in _tables(data, plan, PLAN_DELEGATES)]
    kernel_calls, delegate_calls = [], []
    for chain in _tables(data, plan, PLAN_CHAINS):
        for instruction in _tables(data, chain, CHAIN_INSTRUCTIONS):
            kind = _scalar(data, instruction, INSTRUCTION_KIND, "<B")
            slot = _field(data, instruction, INSTRUCTION_ARGUMENTS)
            if kind in (KERNEL_CALL, DELEGATE_CALL) and slot:
                index = _scalar(data, _indirect(data, slot), FIRST_FIELD, "<i")
                if kind == KERNEL_CALL:
                    kernel_calls.append(operators[index])
                else:
                    delegate_calls.append(delegates[index])
    return Plan(_text(data, plan, PLAN_NAME), tuple(delegate_calls), tuple(kernel_calls))


def _number(data: Buffer, at: int, form: str) -> int:
    value: int = struct.unpack_from(form, data, at)[0]
    return value


def _indirect(data: Buffer, at: int) -> int:
    return at + _number(data, at, "<I")


def _field(data: Buffer, table: int, index: int) -> int:
    """Where a field is; 0 where it has its default."""
    vtable = table - _number(data, table, "<i")
    entry = 4 + 2 * index
    if entry >= _number(data, vtable, "<H"):
        return 0
    offset = _number(data, vtable + entry, "<H")
    return table + offset if offset else 0


def _scalar(data: Buffer, table: int, index: int, form: str) -> int:
    at = _field(data, table, index)
    return _number(data, at, form) if at else 0


def _text(data: Buffer, table: int, index: int) -> str:
    at = _field(data, table, index)
    if not at:
        return ""
    start = _indirect(data, at)
    return data[start + 4 : start + 4 + _number(data, start, "<I")].decode(errors="replace")


def _tables(data: Buffer, table: int, index: int) -> Iterator[int]:
    at = _field(data, table, index)
    if not at:
        return
    vector = _indirect(data, at)
    for item in range(_number(data, vector, "<I")):
        yield _indirect(data, vector + 4 + 4 * item)
