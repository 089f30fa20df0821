"""Generated readers of Produce, Fetch and ListOffsets.

Written by tools/write_generated_readers.py, not by hand; see `generated_readers`. `vN` is what
is kept in slot N of the projected decode: a number, or where something is.
"""

from typing import Final, cast

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.messages.extracted import FieldSink
from kdissect.protocol.plans import GeneratedRead
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.readers import FAILED, NULL, Sink
from kdissect.protocol.structures import skip_tags


class ProduceRequest3(GeneratedRead):
    """Produce request v3 to v8."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        if at + 2 > size:
            return FAILED
        n1 = i64(read_i16_be(data, at))
        at += 2
        if n1 < -1:
            return FAILED
        v1 = NULL
        if n1 >= 0:
            v1 = at << 32 | n1
            at += n1
            if at > size:
                return FAILED
        if at + 10 > size:
            return FAILED
        v2 = i64(read_i16_be(data, at))
        n2 = i64(read_i32_be(data, at + 6))
        at += 10
        if n2 < -1:
            return FAILED
        while n2 > 0:
            n2 -= 1
            if at + 2 > size:
                return FAILED
            n3 = i64(read_i16_be(data, at))
            at += 2
            if n3 < -1:
                return FAILED
            v3 = NULL
            if n3 >= 0:
                v3 = at << 32 | n3
                at += n3
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n4 = i64(read_i32_be(data, at))
            at += 4
            if n4 < -1:
                return FAILED
            while n4 > 0:
                n4 -= 1
                if at + 8 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                n5 = i64(read_i32_be(data, at + 4))
                at += 8
                if n5 < -1:
                    return FAILED
                v5 = NULL
                if n5 >= 0:
                    v5 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                sink.add_records(data, v5, NULL, NULL)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        sink.acks = v2
        sink.transactional_id = sink.span_text(data, v1)
        return at if at <= size else FAILED


class ProduceRequest9(GeneratedRead):
    """Produce request v9 to v12."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        v1 = NULL
        if n1 >= 0:
            v1 = at << 32 | n1
            at += n1
            if at > size:
                return FAILED
        if at + 6 > size:
            return FAILED
        v2 = i64(read_i16_be(data, at))
        at += 6
        if at >= size:
            return FAILED
        n2 = i64(data[at]) - 1
        at += 1
        if n2 >= 127:
            n2, at = read_unsigned_varint(data, at - 1)
            n2 -= 1
        while n2 > 0:
            n2 -= 1
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            v3 = NULL
            if n3 >= 0:
                v3 = at << 32 | n3
                at += n3
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n4 = i64(data[at]) - 1
            at += 1
            if n4 >= 127:
                n4, at = read_unsigned_varint(data, at - 1)
                n4 -= 1
            while n4 > 0:
                n4 -= 1
                if at + 4 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                at += 4
                if at >= size:
                    return FAILED
                n5 = i64(data[at]) - 1
                at += 1
                if n5 >= 127:
                    n5, at = read_unsigned_varint(data, at - 1)
                    n5 -= 1
                v5 = NULL
                if n5 >= 0:
                    v5 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                sink.add_records(data, v5, NULL, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.acks = v2
        sink.transactional_id = sink.span_text(data, v1)
        return at if at <= size else FAILED


class ProduceRequest13(GeneratedRead):
    """Produce request v13."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        v1 = NULL
        if n1 >= 0:
            v1 = at << 32 | n1
            at += n1
            if at > size:
                return FAILED
        if at + 6 > size:
            return FAILED
        v2 = i64(read_i16_be(data, at))
        at += 6
        if at >= size:
            return FAILED
        n2 = i64(data[at]) - 1
        at += 1
        if n2 >= 127:
            n2, at = read_unsigned_varint(data, at - 1)
            n2 -= 1
        while n2 > 0:
            n2 -= 1
            if at + 16 > size:
                return FAILED
            v3 = at
            at += 16
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 4 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                at += 4
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                v5 = NULL
                if n4 >= 0:
                    v5 = at << 32 | n4
                    at += n4
                    if at > size:
                        return FAILED
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != NULL or sink.topic_id_span != v3:
                    sink.set_topic(data, NULL, v3)
                sink.add_partition(v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                sink.add_records(data, v5, NULL, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v3:
                sink.set_topic(data, NULL, v3)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.acks = v2
        sink.transactional_id = sink.span_text(data, v1)
        return at if at <= size else FAILED


class ProduceResponse3(GeneratedRead):
    """Produce response v3 to v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        if at + 4 > size:
            return FAILED
        n1 = i64(read_i32_be(data, at))
        at += 4
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 22 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                at += 22
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v5 = i64(read_i32_be(data, at))
        at += 4
        sink.throttle_ms = v5
        return at if at <= size else FAILED


class ProduceResponse5(GeneratedRead):
    """Produce response v5 to v7."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        if at + 4 > size:
            return FAILED
        n1 = i64(read_i32_be(data, at))
        at += 4
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 30 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                v5 = read_i64_be(data, at + 22)
                at += 30
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, v5, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v6 = i64(read_i32_be(data, at))
        at += 4
        sink.throttle_ms = v6
        return at if at <= size else FAILED


class ProduceResponse8(GeneratedRead):
    """Produce response v8."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        if at + 4 > size:
            return FAILED
        n1 = i64(read_i32_be(data, at))
        at += 4
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 34 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                v5 = read_i64_be(data, at + 22)
                n4 = i64(read_i32_be(data, at + 30))
                at += 34
                if n4 < -1:
                    return FAILED
                if n4 > 0:
                    return FAILED
                if at + 2 > size:
                    return FAILED
                n5 = i64(read_i16_be(data, at))
                at += 2
                if n5 < -1:
                    return FAILED
                v8 = NULL
                if n5 >= 0:
                    v8 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, v5, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[8] = v8
                    sink.row(self.shapes[1], data)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v9 = i64(read_i32_be(data, at))
        at += 4
        sink.throttle_ms = v9
        return at if at <= size else FAILED


class ProduceResponse9(GeneratedRead):
    """Produce response v9."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 30 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                v5 = read_i64_be(data, at + 22)
                at += 30
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                if n4 > 0:
                    return FAILED
                if at >= size:
                    return FAILED
                n5 = i64(data[at]) - 1
                at += 1
                if n5 >= 127:
                    n5, at = read_unsigned_varint(data, at - 1)
                    n5 -= 1
                v8 = NULL
                if n5 >= 0:
                    v8 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, v5, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[8] = v8
                    sink.row(self.shapes[1], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v9 = i64(read_i32_be(data, at))
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v9
        return at if at <= size else FAILED


class ProduceResponse10(GeneratedRead):
    """Produce response v10 to v12."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                v9 = NULL
                if at + 30 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                v5 = read_i64_be(data, at + 22)
                at += 30
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                if n4 > 0:
                    return FAILED
                if at >= size:
                    return FAILED
                n5 = i64(data[at]) - 1
                at += 1
                if n5 >= 127:
                    n5, at = read_unsigned_varint(data, at - 1)
                    n5 -= 1
                v8 = NULL
                if n5 >= 0:
                    v8 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if at >= size or data[at] != 0:
                    return FAILED
                at += 1
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, v5, v9, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[8] = v8
                    slots[9] = v9
                    sink.row(self.shapes[1], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v10 = i64(read_i32_be(data, at))
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v10
        return at if at <= size else FAILED


class ProduceResponse13(GeneratedRead):
    """Produce response v13."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at + 16 > size:
                return FAILED
            v1 = at
            at += 16
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            while n2 > 0:
                n2 -= 1
                v9 = NULL
                if at + 30 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 6)
                v5 = read_i64_be(data, at + 22)
                at += 30
                if at >= size:
                    return FAILED
                n3 = i64(data[at]) - 1
                at += 1
                if n3 >= 127:
                    n3, at = read_unsigned_varint(data, at - 1)
                    n3 -= 1
                if n3 > 0:
                    return FAILED
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                v8 = NULL
                if n4 >= 0:
                    v8 = at << 32 | n4
                    at += n4
                    if at > size:
                        return FAILED
                if at >= size or data[at] != 0:
                    return FAILED
                at += 1
                if v3 == 0:
                    if sink.topic_span != NULL or sink.topic_id_span != v1:
                        sink.set_topic(data, NULL, v1)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, v5, v9, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[8] = v8
                    slots[9] = v9
                    sink.row(self.shapes[1], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v1:
                sink.set_topic(data, NULL, v1)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        v10 = i64(read_i32_be(data, at))
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v10
        return at if at <= size else FAILED


class FetchRequest4(GeneratedRead):
    """Fetch request v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        if at + 21 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        n1 = i64(read_i32_be(data, at + 17))
        at += 21
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v4 = NULL
            if n2 >= 0:
                v4 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 16 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = read_i64_be(data, at + 4)
                at += 16
                if sink.topic_span != v4 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v4, NULL)
                sink.add_partition(v5, NULL, NULL, v6, NULL, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v4 or sink.topic_id_span != NULL:
                sink.set_topic(data, v4, NULL)
            sink.topic_count += 1
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        return at if at <= size else FAILED


class FetchRequest5(GeneratedRead):
    """Fetch request v5 to v6."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        if at + 21 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        n1 = i64(read_i32_be(data, at + 17))
        at += 21
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v4 = NULL
            if n2 >= 0:
                v4 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 24 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = read_i64_be(data, at + 4)
                at += 24
                if sink.topic_span != v4 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v4, NULL)
                sink.add_partition(v5, NULL, NULL, v6, NULL, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v4 or sink.topic_id_span != NULL:
                sink.set_topic(data, v4, NULL)
            sink.topic_count += 1
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        return at if at <= size else FAILED


class FetchRequest7(GeneratedRead):
    """Fetch request v7 to v8."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        if at + 29 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        v4 = i64(read_i32_be(data, at + 17))
        v5 = i64(read_i32_be(data, at + 21))
        n1 = i64(read_i32_be(data, at + 25))
        at += 29
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v6 = NULL
            if n2 >= 0:
                v6 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 24 > size:
                    return FAILED
                v7 = i64(read_i32_be(data, at))
                v8 = read_i64_be(data, at + 4)
                at += 24
                if sink.topic_span != v6 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v6, NULL)
                sink.add_partition(v7, NULL, NULL, v8, NULL, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v6 or sink.topic_id_span != NULL:
                sink.set_topic(data, v6, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        n4 = i64(read_i32_be(data, at))
        at += 4
        if n4 < -1:
            return FAILED
        while n4 > 0:
            n4 -= 1
            if at + 2 > size:
                return FAILED
            n5 = i64(read_i16_be(data, at))
            at += 2
            if n5 < -1:
                return FAILED
            if n5 > 0:
                at += n5
            if at + 4 > size:
                return FAILED
            n6 = i64(read_i32_be(data, at))
            at += 4
            if n6 < -1:
                return FAILED
            if n6 > 0:
                at += n6 * 4
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        sink.session_id = v4
        sink.session_epoch = v5
        return at if at <= size else FAILED


class FetchRequest9(GeneratedRead):
    """Fetch request v9 to v10."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        if at + 29 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        v4 = i64(read_i32_be(data, at + 17))
        v5 = i64(read_i32_be(data, at + 21))
        n1 = i64(read_i32_be(data, at + 25))
        at += 29
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v6 = NULL
            if n2 >= 0:
                v6 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 28 > size:
                    return FAILED
                v7 = i64(read_i32_be(data, at))
                v8 = i64(read_i32_be(data, at + 4))
                v9 = read_i64_be(data, at + 8)
                at += 28
                if sink.topic_span != v6 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v6, NULL)
                sink.add_partition(v7, NULL, NULL, v9, NULL, NULL, NULL, NULL, v8, NULL)
            if sink.topic_span != v6 or sink.topic_id_span != NULL:
                sink.set_topic(data, v6, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        n4 = i64(read_i32_be(data, at))
        at += 4
        if n4 < -1:
            return FAILED
        while n4 > 0:
            n4 -= 1
            if at + 2 > size:
                return FAILED
            n5 = i64(read_i16_be(data, at))
            at += 2
            if n5 < -1:
                return FAILED
            if n5 > 0:
                at += n5
            if at + 4 > size:
                return FAILED
            n6 = i64(read_i32_be(data, at))
            at += 4
            if n6 < -1:
                return FAILED
            if n6 > 0:
                at += n6 * 4
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        sink.session_id = v4
        sink.session_epoch = v5
        return at if at <= size else FAILED


class FetchRequest11(GeneratedRead):
    """Fetch request v11."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        if at + 29 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        v4 = i64(read_i32_be(data, at + 17))
        v5 = i64(read_i32_be(data, at + 21))
        n1 = i64(read_i32_be(data, at + 25))
        at += 29
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v6 = NULL
            if n2 >= 0:
                v6 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 28 > size:
                    return FAILED
                v7 = i64(read_i32_be(data, at))
                v8 = i64(read_i32_be(data, at + 4))
                v9 = read_i64_be(data, at + 8)
                at += 28
                if sink.topic_span != v6 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v6, NULL)
                sink.add_partition(v7, NULL, NULL, v9, NULL, NULL, NULL, NULL, v8, NULL)
            if sink.topic_span != v6 or sink.topic_id_span != NULL:
                sink.set_topic(data, v6, NULL)
            sink.topic_count += 1
        if at + 4 > size:
            return FAILED
        n4 = i64(read_i32_be(data, at))
        at += 4
        if n4 < -1:
            return FAILED
        while n4 > 0:
            n4 -= 1
            if at + 2 > size:
                return FAILED
            n5 = i64(read_i16_be(data, at))
            at += 2
            if n5 < -1:
                return FAILED
            if n5 > 0:
                at += n5
            if at + 4 > size:
                return FAILED
            n6 = i64(read_i32_be(data, at))
            at += 4
            if n6 < -1:
                return FAILED
            if n6 > 0:
                at += n6 * 4
        if at + 2 > size:
            return FAILED
        n7 = i64(read_i16_be(data, at))
        at += 2
        if n7 < -1:
            return FAILED
        v10 = NULL
        if n7 >= 0:
            v10 = at << 32 | n7
            at += n7
            if at > size:
                return FAILED
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        sink.session_id = v4
        sink.session_epoch = v5
        sink.rack_id = sink.span_text(data, v10)
        return at if at <= size else FAILED


class FetchRequest12(GeneratedRead):
    """Fetch request v12."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        if at + 25 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        v4 = i64(read_i32_be(data, at + 17))
        v5 = i64(read_i32_be(data, at + 21))
        at += 25
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v6 = NULL
            if n2 >= 0:
                v6 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 32 > size:
                    return FAILED
                v7 = i64(read_i32_be(data, at))
                v8 = i64(read_i32_be(data, at + 4))
                v9 = read_i64_be(data, at + 8)
                at += 32
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != v6 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v6, NULL)
                sink.add_partition(v7, NULL, NULL, v9, NULL, NULL, NULL, NULL, v8, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v6 or sink.topic_id_span != NULL:
                sink.set_topic(data, v6, NULL)
            sink.topic_count += 1
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        while n4 > 0:
            n4 -= 1
            if at >= size:
                return FAILED
            n5 = i64(data[at]) - 1
            at += 1
            if n5 >= 127:
                n5, at = read_unsigned_varint(data, at - 1)
                n5 -= 1
            if n5 > 0:
                at += n5
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            if n6 > 0:
                at += n6 * 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n7 = i64(data[at]) - 1
        at += 1
        if n7 >= 127:
            n7, at = read_unsigned_varint(data, at - 1)
            n7 -= 1
        v10 = NULL
        if n7 >= 0:
            v10 = at << 32 | n7
            at += n7
            if at > size:
                return FAILED
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        sink.session_id = v4
        sink.session_epoch = v5
        sink.rack_id = sink.span_text(data, v10)
        return at if at <= size else FAILED


class FetchRequest13(GeneratedRead):
    """Fetch request v13 to v14."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        if at + 25 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 8))
        v4 = i64(read_i32_be(data, at + 17))
        v5 = i64(read_i32_be(data, at + 21))
        at += 25
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at + 16 > size:
                return FAILED
            v6 = at
            at += 16
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            while n2 > 0:
                n2 -= 1
                if at + 32 > size:
                    return FAILED
                v7 = i64(read_i32_be(data, at))
                v8 = i64(read_i32_be(data, at + 4))
                v9 = read_i64_be(data, at + 8)
                at += 32
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != NULL or sink.topic_id_span != v6:
                    sink.set_topic(data, NULL, v6)
                sink.add_partition(v7, NULL, NULL, v9, NULL, NULL, NULL, NULL, v8, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v6:
                sink.set_topic(data, NULL, v6)
            sink.topic_count += 1
        if at >= size:
            return FAILED
        n3 = i64(data[at]) - 1
        at += 1
        if n3 >= 127:
            n3, at = read_unsigned_varint(data, at - 1)
            n3 -= 1
        while n3 > 0:
            n3 -= 1
            at += 16
            if at >= size:
                return FAILED
            n4 = i64(data[at]) - 1
            at += 1
            if n4 >= 127:
                n4, at = read_unsigned_varint(data, at - 1)
                n4 -= 1
            if n4 > 0:
                at += n4 * 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        v10 = NULL
        if n5 >= 0:
            v10 = at << 32 | n5
            at += n5
            if at > size:
                return FAILED
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.max_wait_ms = v2
        sink.min_bytes = v3
        sink.replica_id = v1
        sink.session_id = v4
        sink.session_epoch = v5
        sink.rack_id = sink.span_text(data, v10)
        return at if at <= size else FAILED


class FetchRequest15(GeneratedRead):
    """Fetch request v15 to v18."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        if at + 21 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i32_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 13))
        v4 = i64(read_i32_be(data, at + 17))
        at += 21
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at + 16 > size:
                return FAILED
            v5 = at
            at += 16
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            while n2 > 0:
                n2 -= 1
                if at + 32 > size:
                    return FAILED
                v6 = i64(read_i32_be(data, at))
                v7 = i64(read_i32_be(data, at + 4))
                v8 = read_i64_be(data, at + 8)
                at += 32
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != NULL or sink.topic_id_span != v5:
                    sink.set_topic(data, NULL, v5)
                sink.add_partition(v6, NULL, NULL, v8, NULL, NULL, NULL, NULL, v7, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v5:
                sink.set_topic(data, NULL, v5)
            sink.topic_count += 1
        if at >= size:
            return FAILED
        n3 = i64(data[at]) - 1
        at += 1
        if n3 >= 127:
            n3, at = read_unsigned_varint(data, at - 1)
            n3 -= 1
        while n3 > 0:
            n3 -= 1
            at += 16
            if at >= size:
                return FAILED
            n4 = i64(data[at]) - 1
            at += 1
            if n4 >= 127:
                n4, at = read_unsigned_varint(data, at - 1)
                n4 -= 1
            if n4 > 0:
                at += n4 * 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        v9 = NULL
        if n5 >= 0:
            v9 = at << 32 | n5
            at += n5
            if at > size:
                return FAILED
        if at >= size or data[at] != 0:
            return FAILED
        at += 1
        sink.max_wait_ms = v1
        sink.min_bytes = v2
        sink.session_id = v3
        sink.session_epoch = v4
        sink.rack_id = sink.span_text(data, v9)
        return at if at <= size else FAILED


class FetchResponse4(GeneratedRead):
    """Fetch response v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v10: i64 = NULL
        if at + 8 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 4))
        at += 8
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 26 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                v5 = read_i64_be(data, at + 6)
                v6 = read_i64_be(data, at + 14)
                n4 = i64(read_i32_be(data, at + 22))
                at += 26
                if n4 < -1:
                    return FAILED
                v7 = NULL if n4 < 0 else n4
                if n4 > 0:
                    return FAILED
                if at + 4 > size:
                    return FAILED
                n5 = i64(read_i32_be(data, at))
                at += 4
                if n5 < -1:
                    return FAILED
                v10 = NULL
                if n5 >= 0:
                    v10 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, NULL, NULL, NULL, v5, v6, NULL, NULL, NULL)
                    sink.add_records(data, v10, NULL, v7)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[10] = v10
                    sink.row(self.shapes[1], data)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class FetchResponse5(GeneratedRead):
    """Fetch response v5 to v6."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v11: i64 = NULL
        if at + 8 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 4))
        at += 8
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 34 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                v5 = read_i64_be(data, at + 6)
                v6 = read_i64_be(data, at + 14)
                v7 = read_i64_be(data, at + 22)
                n4 = i64(read_i32_be(data, at + 30))
                at += 34
                if n4 < -1:
                    return FAILED
                v8 = NULL if n4 < 0 else n4
                if n4 > 0:
                    return FAILED
                if at + 4 > size:
                    return FAILED
                n5 = i64(read_i32_be(data, at))
                at += 4
                if n5 < -1:
                    return FAILED
                v11 = NULL
                if n5 >= 0:
                    v11 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, NULL, NULL, NULL, v5, v6, v7, NULL, NULL)
                    sink.add_records(data, v11, NULL, v8)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[8] = v8
                    slots[11] = v11
                    sink.row(self.shapes[1], data)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class FetchResponse7(GeneratedRead):
    """Fetch response v7 to v10."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        v13: i64 = NULL
        if at + 14 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 6))
        n1 = i64(read_i32_be(data, at + 10))
        at += 14
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v4 = NULL
            if n2 >= 0:
                v4 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 34 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = i64(read_i16_be(data, at + 4))
                v7 = read_i64_be(data, at + 6)
                v8 = read_i64_be(data, at + 14)
                v9 = read_i64_be(data, at + 22)
                n4 = i64(read_i32_be(data, at + 30))
                at += 34
                if n4 < -1:
                    return FAILED
                v10 = NULL if n4 < 0 else n4
                if n4 > 0:
                    return FAILED
                if at + 4 > size:
                    return FAILED
                n5 = i64(read_i32_be(data, at))
                at += 4
                if n5 < -1:
                    return FAILED
                v13 = NULL
                if n5 >= 0:
                    v13 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if v6 == 0:
                    if sink.topic_span != v4 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v4, NULL)
                    sink.add_partition(v5, v6, NULL, NULL, NULL, v7, v8, v9, NULL, NULL)
                    sink.add_records(data, v13, NULL, v10)
                else:
                    slots = sink.slots
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[8] = v8
                    slots[9] = v9
                    slots[10] = v10
                    slots[13] = v13
                    sink.row(self.shapes[1], data)
            if sink.topic_span != v4 or sink.topic_id_span != NULL:
                sink.set_topic(data, v4, NULL)
            sink.topic_count += 1
        if v2 == 0:
            sink.throttle_ms = v1
            sink.session_id = v3
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            slots[3] = v3
            sink.row(self.shapes[3], data)
        return at if at <= size else FAILED


class FetchResponse11(GeneratedRead):
    """Fetch response v11."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        v13: i64 = NULL
        v14: i64 = NULL
        if at + 14 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 6))
        n1 = i64(read_i32_be(data, at + 10))
        at += 14
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v4 = NULL
            if n2 >= 0:
                v4 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 34 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = i64(read_i16_be(data, at + 4))
                v7 = read_i64_be(data, at + 6)
                v8 = read_i64_be(data, at + 14)
                v9 = read_i64_be(data, at + 22)
                n4 = i64(read_i32_be(data, at + 30))
                at += 34
                if n4 < -1:
                    return FAILED
                v10 = NULL if n4 < 0 else n4
                if n4 > 0:
                    return FAILED
                if at + 8 > size:
                    return FAILED
                v13 = i64(read_i32_be(data, at))
                n5 = i64(read_i32_be(data, at + 4))
                at += 8
                if n5 < -1:
                    return FAILED
                v14 = NULL
                if n5 >= 0:
                    v14 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if v6 == 0:
                    if sink.topic_span != v4 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v4, NULL)
                    sink.add_partition(v5, v6, NULL, NULL, NULL, v7, v8, v9, NULL, v13)
                    sink.add_records(data, v14, NULL, v10)
                else:
                    slots = sink.slots
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[8] = v8
                    slots[9] = v9
                    slots[10] = v10
                    slots[13] = v13
                    slots[14] = v14
                    sink.row(self.shapes[1], data)
            if sink.topic_span != v4 or sink.topic_id_span != NULL:
                sink.set_topic(data, v4, NULL)
            sink.topic_count += 1
        if v2 == 0:
            sink.throttle_ms = v1
            sink.session_id = v3
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            slots[3] = v3
            sink.row(self.shapes[3], data)
        return at if at <= size else FAILED


class FetchResponse12(GeneratedRead):
    """Fetch response v12."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        v13: i64 = NULL
        v14: i64 = NULL
        v15: i64 = NULL
        if at + 10 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 6))
        at += 10
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v4 = NULL
            if n2 >= 0:
                v4 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                v15 = NULL
                if at + 30 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = i64(read_i16_be(data, at + 4))
                v7 = read_i64_be(data, at + 6)
                v8 = read_i64_be(data, at + 14)
                v9 = read_i64_be(data, at + 22)
                at += 30
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                v10 = NULL if n4 < 0 else n4
                if n4 > 0:
                    return FAILED
                if at + 4 > size:
                    return FAILED
                v13 = i64(read_i32_be(data, at))
                at += 4
                if at >= size:
                    return FAILED
                n5 = i64(data[at]) - 1
                at += 1
                if n5 >= 127:
                    n5, at = read_unsigned_varint(data, at - 1)
                    n5 -= 1
                v14 = NULL
                if n5 >= 0:
                    v14 = at << 32 | n5
                    at += n5
                    if at > size:
                        return FAILED
                if at >= size or data[at] != 0:
                    return FAILED
                at += 1
                if v6 == 0:
                    if sink.topic_span != v4 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v4, NULL)
                    sink.add_partition(v5, v6, NULL, NULL, NULL, v7, v8, v9, v15, v13)
                    sink.add_records(data, v14, NULL, v10)
                else:
                    slots = sink.slots
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[8] = v8
                    slots[9] = v9
                    slots[10] = v10
                    slots[13] = v13
                    slots[14] = v14
                    slots[15] = v15
                    sink.row(self.shapes[1], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v4 or sink.topic_id_span != NULL:
                sink.set_topic(data, v4, NULL)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        if v2 == 0:
            sink.throttle_ms = v1
            sink.session_id = v3
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            slots[3] = v3
            sink.row(self.shapes[3], data)
        return at if at <= size else FAILED


class FetchResponse13(GeneratedRead):
    """Fetch response v13 to v18."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        v7: i64 = NULL
        v8: i64 = NULL
        v9: i64 = NULL
        v10: i64 = NULL
        v13: i64 = NULL
        v14: i64 = NULL
        v15: i64 = NULL
        if at + 10 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        v3 = i64(read_i32_be(data, at + 6))
        at += 10
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at + 16 > size:
                return FAILED
            v4 = at
            at += 16
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            while n2 > 0:
                n2 -= 1
                v15 = NULL
                if at + 30 > size:
                    return FAILED
                v5 = i64(read_i32_be(data, at))
                v6 = i64(read_i16_be(data, at + 4))
                v7 = read_i64_be(data, at + 6)
                v8 = read_i64_be(data, at + 14)
                v9 = read_i64_be(data, at + 22)
                at += 30
                if at >= size:
                    return FAILED
                n3 = i64(data[at]) - 1
                at += 1
                if n3 >= 127:
                    n3, at = read_unsigned_varint(data, at - 1)
                    n3 -= 1
                v10 = NULL if n3 < 0 else n3
                if n3 > 0:
                    return FAILED
                if at + 4 > size:
                    return FAILED
                v13 = i64(read_i32_be(data, at))
                at += 4
                if at >= size:
                    return FAILED
                n4 = i64(data[at]) - 1
                at += 1
                if n4 >= 127:
                    n4, at = read_unsigned_varint(data, at - 1)
                    n4 -= 1
                v14 = NULL
                if n4 >= 0:
                    v14 = at << 32 | n4
                    at += n4
                    if at > size:
                        return FAILED
                if at >= size or data[at] != 0:
                    return FAILED
                at += 1
                if v6 == 0:
                    if sink.topic_span != NULL or sink.topic_id_span != v4:
                        sink.set_topic(data, NULL, v4)
                    sink.add_partition(v5, v6, NULL, NULL, NULL, v7, v8, v9, v15, v13)
                    sink.add_records(data, v14, NULL, v10)
                else:
                    slots = sink.slots
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    slots[8] = v8
                    slots[9] = v9
                    slots[10] = v10
                    slots[13] = v13
                    slots[14] = v14
                    slots[15] = v15
                    sink.row(self.shapes[1], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v4:
                sink.set_topic(data, NULL, v4)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        if v2 == 0:
            sink.throttle_ms = v1
            sink.session_id = v3
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            slots[3] = v3
            sink.row(self.shapes[3], data)
        return at if at <= size else FAILED


class ListOffsetsRequest1(GeneratedRead):
    """ListOffsets request v1."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        if at + 8 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 4))
        at += 8
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 12 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                at += 12
                if sink.topic_span != v2 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v2, NULL)
                sink.add_partition(v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.replica_id = v1
        return at if at <= size else FAILED


class ListOffsetsRequest2(GeneratedRead):
    """ListOffsets request v2 to v3."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        if at + 9 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 5))
        at += 9
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 12 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                at += 12
                if sink.topic_span != v2 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v2, NULL)
                sink.add_partition(v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.replica_id = v1
        return at if at <= size else FAILED


class ListOffsetsRequest4(GeneratedRead):
    """ListOffsets request v4 to v5."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        if at + 9 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 5))
        at += 9
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 16 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i32_be(data, at + 4))
                at += 16
                if sink.topic_span != v2 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v2, NULL)
                sink.add_partition(v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v4, NULL)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.replica_id = v1
        return at if at <= size else FAILED


class ListOffsetsRequest6(GeneratedRead):
    """ListOffsets request v6 to v9."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        if at + 5 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        at += 5
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 16 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i32_be(data, at + 4))
                at += 16
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != v2 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v2, NULL)
                sink.add_partition(v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v4, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.replica_id = v1
        return at if at <= size else FAILED


class ListOffsetsRequest10(GeneratedRead):
    """ListOffsets request v10 to v11."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        if at + 5 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        at += 5
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 16 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i32_be(data, at + 4))
                at += 16
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != v2 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v2, NULL)
                sink.add_partition(v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v4, NULL)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.replica_id = v1
        return at if at <= size else FAILED


class ListOffsetsResponse1(GeneratedRead):
    """ListOffsets response v1."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        if at + 4 > size:
            return FAILED
        n1 = i64(read_i32_be(data, at))
        at += 4
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v1 = NULL
            if n2 >= 0:
                v1 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 22 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                v4 = read_i64_be(data, at + 14)
                at += 22
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        return at if at <= size else FAILED


class ListOffsetsResponse2(GeneratedRead):
    """ListOffsets response v2 to v3."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        if at + 8 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 4))
        at += 8
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 22 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                v5 = read_i64_be(data, at + 14)
                at += 22
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, v5, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class ListOffsetsResponse4(GeneratedRead):
    """ListOffsets response v4 to v5."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        if at + 8 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        n1 = i64(read_i32_be(data, at + 4))
        at += 8
        if n1 < -1:
            return FAILED
        while n1 > 0:
            n1 -= 1
            if at + 2 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at))
            at += 2
            if n2 < -1:
                return FAILED
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n3 = i64(read_i32_be(data, at))
            at += 4
            if n3 < -1:
                return FAILED
            while n3 > 0:
                n3 -= 1
                if at + 26 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                v5 = read_i64_be(data, at + 14)
                v6 = i64(read_i32_be(data, at + 22))
                at += 26
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, v5, NULL, NULL, NULL, NULL, NULL, v6, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class ListOffsetsResponse6(GeneratedRead):
    """ListOffsets response v6 to v11."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
        v5: i64 = NULL
        v6: i64 = NULL
        if at + 4 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        at += 4
        if at >= size:
            return FAILED
        n1 = i64(data[at]) - 1
        at += 1
        if n1 >= 127:
            n1, at = read_unsigned_varint(data, at - 1)
            n1 -= 1
        while n1 > 0:
            n1 -= 1
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            while n3 > 0:
                n3 -= 1
                if at + 26 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                v5 = read_i64_be(data, at + 14)
                v6 = i64(read_i32_be(data, at + 22))
                at += 26
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, v5, NULL, NULL, NULL, NULL, NULL, v6, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    sink.row(self.shapes[0], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


# By API key, side and version.
READS: Final[dict[tuple[int, int, int], type[GeneratedRead]]] = {
    (0, 0, 3): ProduceRequest3,
    (0, 0, 4): ProduceRequest3,
    (0, 0, 5): ProduceRequest3,
    (0, 0, 6): ProduceRequest3,
    (0, 0, 7): ProduceRequest3,
    (0, 0, 8): ProduceRequest3,
    (0, 0, 9): ProduceRequest9,
    (0, 0, 10): ProduceRequest9,
    (0, 0, 11): ProduceRequest9,
    (0, 0, 12): ProduceRequest9,
    (0, 0, 13): ProduceRequest13,
    (0, 1, 3): ProduceResponse3,
    (0, 1, 4): ProduceResponse3,
    (0, 1, 5): ProduceResponse5,
    (0, 1, 6): ProduceResponse5,
    (0, 1, 7): ProduceResponse5,
    (0, 1, 8): ProduceResponse8,
    (0, 1, 9): ProduceResponse9,
    (0, 1, 10): ProduceResponse10,
    (0, 1, 11): ProduceResponse10,
    (0, 1, 12): ProduceResponse10,
    (0, 1, 13): ProduceResponse13,
    (1, 0, 4): FetchRequest4,
    (1, 0, 5): FetchRequest5,
    (1, 0, 6): FetchRequest5,
    (1, 0, 7): FetchRequest7,
    (1, 0, 8): FetchRequest7,
    (1, 0, 9): FetchRequest9,
    (1, 0, 10): FetchRequest9,
    (1, 0, 11): FetchRequest11,
    (1, 0, 12): FetchRequest12,
    (1, 0, 13): FetchRequest13,
    (1, 0, 14): FetchRequest13,
    (1, 0, 15): FetchRequest15,
    (1, 0, 16): FetchRequest15,
    (1, 0, 17): FetchRequest15,
    (1, 0, 18): FetchRequest15,
    (1, 1, 4): FetchResponse4,
    (1, 1, 5): FetchResponse5,
    (1, 1, 6): FetchResponse5,
    (1, 1, 7): FetchResponse7,
    (1, 1, 8): FetchResponse7,
    (1, 1, 9): FetchResponse7,
    (1, 1, 10): FetchResponse7,
    (1, 1, 11): FetchResponse11,
    (1, 1, 12): FetchResponse12,
    (1, 1, 13): FetchResponse13,
    (1, 1, 14): FetchResponse13,
    (1, 1, 15): FetchResponse13,
    (1, 1, 16): FetchResponse13,
    (1, 1, 17): FetchResponse13,
    (1, 1, 18): FetchResponse13,
    (2, 0, 1): ListOffsetsRequest1,
    (2, 0, 2): ListOffsetsRequest2,
    (2, 0, 3): ListOffsetsRequest2,
    (2, 0, 4): ListOffsetsRequest4,
    (2, 0, 5): ListOffsetsRequest4,
    (2, 0, 6): ListOffsetsRequest6,
    (2, 0, 7): ListOffsetsRequest6,
    (2, 0, 8): ListOffsetsRequest6,
    (2, 0, 9): ListOffsetsRequest6,
    (2, 0, 10): ListOffsetsRequest10,
    (2, 0, 11): ListOffsetsRequest10,
    (2, 1, 1): ListOffsetsResponse1,
    (2, 1, 2): ListOffsetsResponse2,
    (2, 1, 3): ListOffsetsResponse2,
    (2, 1, 4): ListOffsetsResponse4,
    (2, 1, 5): ListOffsetsResponse4,
    (2, 1, 6): ListOffsetsResponse6,
    (2, 1, 7): ListOffsetsResponse6,
    (2, 1, 8): ListOffsetsResponse6,
    (2, 1, 9): ListOffsetsResponse6,
    (2, 1, 10): ListOffsetsResponse6,
    (2, 1, 11): ListOffsetsResponse6,
}
