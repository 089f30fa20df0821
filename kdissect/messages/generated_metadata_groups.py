"""Generated readers of Metadata, OffsetCommit and Heartbeat.

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


class MetadataRequest4(GeneratedRead):
    """Metadata request v4 to v7."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        at += 1
        return at if at <= size else FAILED


class MetadataRequest8(GeneratedRead):
    """Metadata request v8."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        at += 3
        return at if at <= size else FAILED


class MetadataRequest9(GeneratedRead):
    """Metadata request v9."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        at += 3
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        return at if at <= size else FAILED


class MetadataRequest10(GeneratedRead):
    """Metadata request v10."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
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
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v2 or sink.topic_id_span != v1:
                sink.set_topic(data, v2, v1)
            sink.topic_count += 1
        at += 3
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        return at if at <= size else FAILED


class MetadataRequest11(GeneratedRead):
    """Metadata request v11 to v13."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
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
            v2 = NULL
            if n2 >= 0:
                v2 = at << 32 | n2
                at += n2
                if at > size:
                    return FAILED
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != v2 or sink.topic_id_span != v1:
                sink.set_topic(data, v2, v1)
            sink.topic_count += 1
        at += 2
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        return at if at <= size else FAILED


class MetadataResponse4(GeneratedRead):
    """Metadata response v4."""

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
            if at + 6 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at + 4))
            at += 6
            if n2 < -1:
                return FAILED
            if n2 > 0:
                at += n2
            if at + 6 > size:
                return FAILED
            n3 = i64(read_i16_be(data, at + 4))
            at += 6
            if n3 < -1:
                return FAILED
            if n3 > 0:
                at += n3
        if at + 2 > size:
            return FAILED
        n4 = i64(read_i16_be(data, at))
        at += 2
        if n4 < -1:
            return FAILED
        if n4 > 0:
            at += n4
        if at + 8 > size:
            return FAILED
        n5 = i64(read_i32_be(data, at + 4))
        at += 8
        if n5 < -1:
            return FAILED
        while n5 > 0:
            n5 -= 1
            if at + 4 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            n6 = i64(read_i16_be(data, at + 2))
            at += 4
            if n6 < -1:
                return FAILED
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 5 > size:
                return FAILED
            n7 = i64(read_i32_be(data, at + 1))
            at += 5
            if n7 < -1:
                return FAILED
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v4 = i64(read_i16_be(data, at))
                v5 = i64(read_i32_be(data, at + 2))
                n8 = i64(read_i32_be(data, at + 10))
                at += 14
                if n8 < -1:
                    return FAILED
                if n8 > 0:
                    at += n8 * 4
                if at + 4 > size:
                    return FAILED
                n9 = i64(read_i32_be(data, at))
                at += 4
                if n9 < -1:
                    return FAILED
                if n9 > 0:
                    at += n9 * 4
                if v4 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v3, NULL)
                    sink.add_partition(v5, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    sink.row(self.shapes[0], data)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                sink.row(self.shapes[1], data)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse5(GeneratedRead):
    """Metadata response v5 to v6."""

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
            if at + 6 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at + 4))
            at += 6
            if n2 < -1:
                return FAILED
            if n2 > 0:
                at += n2
            if at + 6 > size:
                return FAILED
            n3 = i64(read_i16_be(data, at + 4))
            at += 6
            if n3 < -1:
                return FAILED
            if n3 > 0:
                at += n3
        if at + 2 > size:
            return FAILED
        n4 = i64(read_i16_be(data, at))
        at += 2
        if n4 < -1:
            return FAILED
        if n4 > 0:
            at += n4
        if at + 8 > size:
            return FAILED
        n5 = i64(read_i32_be(data, at + 4))
        at += 8
        if n5 < -1:
            return FAILED
        while n5 > 0:
            n5 -= 1
            if at + 4 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            n6 = i64(read_i16_be(data, at + 2))
            at += 4
            if n6 < -1:
                return FAILED
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 5 > size:
                return FAILED
            n7 = i64(read_i32_be(data, at + 1))
            at += 5
            if n7 < -1:
                return FAILED
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v4 = i64(read_i16_be(data, at))
                v5 = i64(read_i32_be(data, at + 2))
                n8 = i64(read_i32_be(data, at + 10))
                at += 14
                if n8 < -1:
                    return FAILED
                if n8 > 0:
                    at += n8 * 4
                if at + 4 > size:
                    return FAILED
                n9 = i64(read_i32_be(data, at))
                at += 4
                if n9 < -1:
                    return FAILED
                if n9 > 0:
                    at += n9 * 4
                if at + 4 > size:
                    return FAILED
                n10 = i64(read_i32_be(data, at))
                at += 4
                if n10 < -1:
                    return FAILED
                if n10 > 0:
                    at += n10 * 4
                if v4 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v3, NULL)
                    sink.add_partition(v5, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    sink.row(self.shapes[0], data)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                sink.row(self.shapes[1], data)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse7(GeneratedRead):
    """Metadata response v7."""

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
            if at + 6 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at + 4))
            at += 6
            if n2 < -1:
                return FAILED
            if n2 > 0:
                at += n2
            if at + 6 > size:
                return FAILED
            n3 = i64(read_i16_be(data, at + 4))
            at += 6
            if n3 < -1:
                return FAILED
            if n3 > 0:
                at += n3
        if at + 2 > size:
            return FAILED
        n4 = i64(read_i16_be(data, at))
        at += 2
        if n4 < -1:
            return FAILED
        if n4 > 0:
            at += n4
        if at + 8 > size:
            return FAILED
        n5 = i64(read_i32_be(data, at + 4))
        at += 8
        if n5 < -1:
            return FAILED
        while n5 > 0:
            n5 -= 1
            if at + 4 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            n6 = i64(read_i16_be(data, at + 2))
            at += 4
            if n6 < -1:
                return FAILED
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 5 > size:
                return FAILED
            n7 = i64(read_i32_be(data, at + 1))
            at += 5
            if n7 < -1:
                return FAILED
            while n7 > 0:
                n7 -= 1
                if at + 18 > size:
                    return FAILED
                v4 = i64(read_i16_be(data, at))
                v5 = i64(read_i32_be(data, at + 2))
                v6 = i64(read_i32_be(data, at + 10))
                n8 = i64(read_i32_be(data, at + 14))
                at += 18
                if n8 < -1:
                    return FAILED
                if n8 > 0:
                    at += n8 * 4
                if at + 4 > size:
                    return FAILED
                n9 = i64(read_i32_be(data, at))
                at += 4
                if n9 < -1:
                    return FAILED
                if n9 > 0:
                    at += n9 * 4
                if at + 4 > size:
                    return FAILED
                n10 = i64(read_i32_be(data, at))
                at += 4
                if n10 < -1:
                    return FAILED
                if n10 > 0:
                    at += n10 * 4
                if v4 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v3, NULL)
                    sink.add_partition(v5, v4, NULL, NULL, NULL, NULL, NULL, NULL, v6, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    sink.row(self.shapes[0], data)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                sink.row(self.shapes[1], data)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse8(GeneratedRead):
    """Metadata response v8."""

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
            if at + 6 > size:
                return FAILED
            n2 = i64(read_i16_be(data, at + 4))
            at += 6
            if n2 < -1:
                return FAILED
            if n2 > 0:
                at += n2
            if at + 6 > size:
                return FAILED
            n3 = i64(read_i16_be(data, at + 4))
            at += 6
            if n3 < -1:
                return FAILED
            if n3 > 0:
                at += n3
        if at + 2 > size:
            return FAILED
        n4 = i64(read_i16_be(data, at))
        at += 2
        if n4 < -1:
            return FAILED
        if n4 > 0:
            at += n4
        if at + 8 > size:
            return FAILED
        n5 = i64(read_i32_be(data, at + 4))
        at += 8
        if n5 < -1:
            return FAILED
        while n5 > 0:
            n5 -= 1
            if at + 4 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            n6 = i64(read_i16_be(data, at + 2))
            at += 4
            if n6 < -1:
                return FAILED
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 5 > size:
                return FAILED
            n7 = i64(read_i32_be(data, at + 1))
            at += 5
            if n7 < -1:
                return FAILED
            while n7 > 0:
                n7 -= 1
                if at + 18 > size:
                    return FAILED
                v4 = i64(read_i16_be(data, at))
                v5 = i64(read_i32_be(data, at + 2))
                v6 = i64(read_i32_be(data, at + 10))
                n8 = i64(read_i32_be(data, at + 14))
                at += 18
                if n8 < -1:
                    return FAILED
                if n8 > 0:
                    at += n8 * 4
                if at + 4 > size:
                    return FAILED
                n9 = i64(read_i32_be(data, at))
                at += 4
                if n9 < -1:
                    return FAILED
                if n9 > 0:
                    at += n9 * 4
                if at + 4 > size:
                    return FAILED
                n10 = i64(read_i32_be(data, at))
                at += 4
                if n10 < -1:
                    return FAILED
                if n10 > 0:
                    at += n10 * 4
                if v4 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v3, NULL)
                    sink.add_partition(v5, v4, NULL, NULL, NULL, NULL, NULL, NULL, v6, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    sink.row(self.shapes[0], data)
            at += 4
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                sink.row(self.shapes[1], data)
        at += 4
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse9(GeneratedRead):
    """Metadata response v9."""

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
            at += 4
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            if n2 > 0:
                at += n2
            at += 4
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            if n3 > 0:
                at += n3
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        if n4 > 0:
            at += n4
        at += 4
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        while n5 > 0:
            n5 -= 1
            if at + 2 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            at += 2
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            at += 1
            if at >= size:
                return FAILED
            n7 = i64(data[at]) - 1
            at += 1
            if n7 >= 127:
                n7, at = read_unsigned_varint(data, at - 1)
                n7 -= 1
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v4 = i64(read_i16_be(data, at))
                v5 = i64(read_i32_be(data, at + 2))
                v6 = i64(read_i32_be(data, at + 10))
                at += 14
                if at >= size:
                    return FAILED
                n8 = i64(data[at]) - 1
                at += 1
                if n8 >= 127:
                    n8, at = read_unsigned_varint(data, at - 1)
                    n8 -= 1
                if n8 > 0:
                    at += n8 * 4
                if at >= size:
                    return FAILED
                n9 = i64(data[at]) - 1
                at += 1
                if n9 >= 127:
                    n9, at = read_unsigned_varint(data, at - 1)
                    n9 -= 1
                if n9 > 0:
                    at += n9 * 4
                if at >= size:
                    return FAILED
                n10 = i64(data[at]) - 1
                at += 1
                if n10 >= 127:
                    n10, at = read_unsigned_varint(data, at - 1)
                    n10 -= 1
                if n10 > 0:
                    at += n10 * 4
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v4 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v3, NULL)
                    sink.add_partition(v5, v4, NULL, NULL, NULL, NULL, NULL, NULL, v6, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    sink.row(self.shapes[0], data)
            at += 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                sink.row(self.shapes[1], data)
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse10(GeneratedRead):
    """Metadata response v10."""

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
            at += 4
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            if n2 > 0:
                at += n2
            at += 4
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            if n3 > 0:
                at += n3
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        if n4 > 0:
            at += n4
        at += 4
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        while n5 > 0:
            n5 -= 1
            if at + 2 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            at += 2
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 17 > size:
                return FAILED
            v4 = at
            at += 17
            if at >= size:
                return FAILED
            n7 = i64(data[at]) - 1
            at += 1
            if n7 >= 127:
                n7, at = read_unsigned_varint(data, at - 1)
                n7 -= 1
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v5 = i64(read_i16_be(data, at))
                v6 = i64(read_i32_be(data, at + 2))
                v7 = i64(read_i32_be(data, at + 10))
                at += 14
                if at >= size:
                    return FAILED
                n8 = i64(data[at]) - 1
                at += 1
                if n8 >= 127:
                    n8, at = read_unsigned_varint(data, at - 1)
                    n8 -= 1
                if n8 > 0:
                    at += n8 * 4
                if at >= size:
                    return FAILED
                n9 = i64(data[at]) - 1
                at += 1
                if n9 >= 127:
                    n9, at = read_unsigned_varint(data, at - 1)
                    n9 -= 1
                if n9 > 0:
                    at += n9 * 4
                if at >= size:
                    return FAILED
                n10 = i64(data[at]) - 1
                at += 1
                if n10 >= 127:
                    n10, at = read_unsigned_varint(data, at - 1)
                    n10 -= 1
                if n10 > 0:
                    at += n10 * 4
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v5 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != v4:
                        sink.set_topic(data, v3, v4)
                    sink.add_partition(v6, v5, NULL, NULL, NULL, NULL, NULL, NULL, v7, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    sink.row(self.shapes[0], data)
            at += 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != v4:
                    sink.set_topic(data, v3, v4)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                slots[4] = v4
                sink.row(self.shapes[1], data)
        at += 4
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse11(GeneratedRead):
    """Metadata response v11 to v12."""

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
            at += 4
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            if n2 > 0:
                at += n2
            at += 4
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            if n3 > 0:
                at += n3
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        if n4 > 0:
            at += n4
        at += 4
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        while n5 > 0:
            n5 -= 1
            if at + 2 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            at += 2
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 17 > size:
                return FAILED
            v4 = at
            at += 17
            if at >= size:
                return FAILED
            n7 = i64(data[at]) - 1
            at += 1
            if n7 >= 127:
                n7, at = read_unsigned_varint(data, at - 1)
                n7 -= 1
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v5 = i64(read_i16_be(data, at))
                v6 = i64(read_i32_be(data, at + 2))
                v7 = i64(read_i32_be(data, at + 10))
                at += 14
                if at >= size:
                    return FAILED
                n8 = i64(data[at]) - 1
                at += 1
                if n8 >= 127:
                    n8, at = read_unsigned_varint(data, at - 1)
                    n8 -= 1
                if n8 > 0:
                    at += n8 * 4
                if at >= size:
                    return FAILED
                n9 = i64(data[at]) - 1
                at += 1
                if n9 >= 127:
                    n9, at = read_unsigned_varint(data, at - 1)
                    n9 -= 1
                if n9 > 0:
                    at += n9 * 4
                if at >= size:
                    return FAILED
                n10 = i64(data[at]) - 1
                at += 1
                if n10 >= 127:
                    n10, at = read_unsigned_varint(data, at - 1)
                    n10 -= 1
                if n10 > 0:
                    at += n10 * 4
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v5 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != v4:
                        sink.set_topic(data, v3, v4)
                    sink.add_partition(v6, v5, NULL, NULL, NULL, NULL, NULL, NULL, v7, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    sink.row(self.shapes[0], data)
            at += 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != v4:
                    sink.set_topic(data, v3, v4)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                slots[4] = v4
                sink.row(self.shapes[1], data)
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class MetadataResponse13(GeneratedRead):
    """Metadata response v13."""

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
            at += 4
            if at >= size:
                return FAILED
            n2 = i64(data[at]) - 1
            at += 1
            if n2 >= 127:
                n2, at = read_unsigned_varint(data, at - 1)
                n2 -= 1
            if n2 > 0:
                at += n2
            at += 4
            if at >= size:
                return FAILED
            n3 = i64(data[at]) - 1
            at += 1
            if n3 >= 127:
                n3, at = read_unsigned_varint(data, at - 1)
                n3 -= 1
            if n3 > 0:
                at += n3
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        if n4 > 0:
            at += n4
        at += 4
        if at >= size:
            return FAILED
        n5 = i64(data[at]) - 1
        at += 1
        if n5 >= 127:
            n5, at = read_unsigned_varint(data, at - 1)
            n5 -= 1
        while n5 > 0:
            n5 -= 1
            if at + 2 > size:
                return FAILED
            v2 = i64(read_i16_be(data, at))
            at += 2
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            v3 = NULL
            if n6 >= 0:
                v3 = at << 32 | n6
                at += n6
                if at > size:
                    return FAILED
            if at + 17 > size:
                return FAILED
            v4 = at
            at += 17
            if at >= size:
                return FAILED
            n7 = i64(data[at]) - 1
            at += 1
            if n7 >= 127:
                n7, at = read_unsigned_varint(data, at - 1)
                n7 -= 1
            while n7 > 0:
                n7 -= 1
                if at + 14 > size:
                    return FAILED
                v5 = i64(read_i16_be(data, at))
                v6 = i64(read_i32_be(data, at + 2))
                v7 = i64(read_i32_be(data, at + 10))
                at += 14
                if at >= size:
                    return FAILED
                n8 = i64(data[at]) - 1
                at += 1
                if n8 >= 127:
                    n8, at = read_unsigned_varint(data, at - 1)
                    n8 -= 1
                if n8 > 0:
                    at += n8 * 4
                if at >= size:
                    return FAILED
                n9 = i64(data[at]) - 1
                at += 1
                if n9 >= 127:
                    n9, at = read_unsigned_varint(data, at - 1)
                    n9 -= 1
                if n9 > 0:
                    at += n9 * 4
                if at >= size:
                    return FAILED
                n10 = i64(data[at]) - 1
                at += 1
                if n10 >= 127:
                    n10, at = read_unsigned_varint(data, at - 1)
                    n10 -= 1
                if n10 > 0:
                    at += n10 * 4
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v5 == 0:
                    if sink.topic_span != v3 or sink.topic_id_span != v4:
                        sink.set_topic(data, v3, v4)
                    sink.add_partition(v6, v5, NULL, NULL, NULL, NULL, NULL, NULL, v7, NULL)
                else:
                    slots = sink.slots
                    slots[3] = v3
                    slots[4] = v4
                    slots[5] = v5
                    slots[6] = v6
                    slots[7] = v7
                    sink.row(self.shapes[0], data)
            at += 4
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if v2 == 0:
                if sink.topic_span != v3 or sink.topic_id_span != v4:
                    sink.set_topic(data, v3, v4)
                sink.topic_count += 1
            else:
                slots = sink.slots
                slots[2] = v2
                slots[3] = v3
                slots[4] = v4
                sink.row(self.shapes[1], data)
        if at + 2 > size:
            return FAILED
        v8 = i64(read_i16_be(data, at))
        at += 2
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        if v8 == 0:
            sink.throttle_ms = v1
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[8] = v8
            sink.row(self.shapes[2], data)
        return at if at <= size else FAILED


class OffsetCommitRequest2(GeneratedRead):
    """OffsetCommit request v2 to v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
            at += n2
            if at > size:
                return FAILED
        if at + 12 > size:
            return FAILED
        n3 = i64(read_i32_be(data, at + 8))
        at += 12
        if n3 < -1:
            return FAILED
        while n3 > 0:
            n3 -= 1
            if at + 2 > size:
                return FAILED
            n4 = i64(read_i16_be(data, at))
            at += 2
            if n4 < -1:
                return FAILED
            v3 = NULL
            if n4 >= 0:
                v3 = at << 32 | n4
                at += n4
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n5 = i64(read_i32_be(data, at))
            at += 4
            if n5 < -1:
                return FAILED
            while n5 > 0:
                n5 -= 1
                if at + 14 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                n6 = i64(read_i16_be(data, at + 12))
                at += 14
                if n6 < -1:
                    return FAILED
                if n6 > 0:
                    at += n6
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitRequest5(GeneratedRead):
    """OffsetCommit request v5."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
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
            if at + 2 > size:
                return FAILED
            n4 = i64(read_i16_be(data, at))
            at += 2
            if n4 < -1:
                return FAILED
            v3 = NULL
            if n4 >= 0:
                v3 = at << 32 | n4
                at += n4
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n5 = i64(read_i32_be(data, at))
            at += 4
            if n5 < -1:
                return FAILED
            while n5 > 0:
                n5 -= 1
                if at + 14 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                n6 = i64(read_i16_be(data, at + 12))
                at += 14
                if n6 < -1:
                    return FAILED
                if n6 > 0:
                    at += n6
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitRequest6(GeneratedRead):
    """OffsetCommit request v6."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
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
            if at + 2 > size:
                return FAILED
            n4 = i64(read_i16_be(data, at))
            at += 2
            if n4 < -1:
                return FAILED
            v3 = NULL
            if n4 >= 0:
                v3 = at << 32 | n4
                at += n4
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n5 = i64(read_i32_be(data, at))
            at += 4
            if n5 < -1:
                return FAILED
            while n5 > 0:
                n5 -= 1
                if at + 18 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                n6 = i64(read_i16_be(data, at + 16))
                at += 18
                if n6 < -1:
                    return FAILED
                if n6 > 0:
                    at += n6
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitRequest7(GeneratedRead):
    """OffsetCommit request v7."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
            at += n2
            if at > size:
                return FAILED
        if at + 2 > size:
            return FAILED
        n3 = i64(read_i16_be(data, at))
        at += 2
        if n3 < -1:
            return FAILED
        if n3 > 0:
            at += n3
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
            v3 = NULL
            if n5 >= 0:
                v3 = at << 32 | n5
                at += n5
                if at > size:
                    return FAILED
            if at + 4 > size:
                return FAILED
            n6 = i64(read_i32_be(data, at))
            at += 4
            if n6 < -1:
                return FAILED
            while n6 > 0:
                n6 -= 1
                if at + 18 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                n7 = i64(read_i16_be(data, at + 16))
                at += 18
                if n7 < -1:
                    return FAILED
                if n7 > 0:
                    at += n7
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
            if sink.topic_span != v3 or sink.topic_id_span != NULL:
                sink.set_topic(data, v3, NULL)
            sink.topic_count += 1
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitRequest8(GeneratedRead):
    """OffsetCommit request v8 to v9."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        at += 4
        if at >= size:
            return FAILED
        n2 = i64(data[at]) - 1
        at += 1
        if n2 >= 127:
            n2, at = read_unsigned_varint(data, at - 1)
            n2 -= 1
        if n2 >= 0:
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
        if n3 > 0:
            at += n3
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
            v3 = NULL
            if n5 >= 0:
                v3 = at << 32 | n5
                at += n5
                if at > size:
                    return FAILED
            if at >= size:
                return FAILED
            n6 = i64(data[at]) - 1
            at += 1
            if n6 >= 127:
                n6, at = read_unsigned_varint(data, at - 1)
                n6 -= 1
            while n6 > 0:
                n6 -= 1
                if at + 16 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                at += 16
                if at >= size:
                    return FAILED
                n7 = i64(data[at]) - 1
                at += 1
                if n7 >= 127:
                    n7, at = read_unsigned_varint(data, at - 1)
                    n7 -= 1
                if n7 > 0:
                    at += n7
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != v3 or sink.topic_id_span != NULL:
                    sink.set_topic(data, v3, NULL)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
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
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitRequest10(GeneratedRead):
    """OffsetCommit request v10."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        at += 4
        if at >= size:
            return FAILED
        n2 = i64(data[at]) - 1
        at += 1
        if n2 >= 127:
            n2, at = read_unsigned_varint(data, at - 1)
            n2 -= 1
        if n2 >= 0:
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
        if n3 > 0:
            at += n3
        if at >= size:
            return FAILED
        n4 = i64(data[at]) - 1
        at += 1
        if n4 >= 127:
            n4, at = read_unsigned_varint(data, at - 1)
            n4 -= 1
        while n4 > 0:
            n4 -= 1
            if at + 16 > size:
                return FAILED
            v3 = at
            at += 16
            if at >= size:
                return FAILED
            n5 = i64(data[at]) - 1
            at += 1
            if n5 >= 127:
                n5, at = read_unsigned_varint(data, at - 1)
                n5 -= 1
            while n5 > 0:
                n5 -= 1
                if at + 16 > size:
                    return FAILED
                v4 = i64(read_i32_be(data, at))
                v5 = read_i64_be(data, at + 4)
                at += 16
                if at >= size:
                    return FAILED
                n6 = i64(data[at]) - 1
                at += 1
                if n6 >= 127:
                    n6, at = read_unsigned_varint(data, at - 1)
                    n6 -= 1
                if n6 > 0:
                    at += n6
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if sink.topic_span != NULL or sink.topic_id_span != v3:
                    sink.set_topic(data, NULL, v3)
                sink.add_partition(v4, NULL, NULL, NULL, v5, NULL, NULL, NULL, NULL, NULL)
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
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class OffsetCommitResponse2(GeneratedRead):
    """OffsetCommit response v2."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
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
                if at + 6 > size:
                    return FAILED
                v2 = i64(read_i32_be(data, at))
                v3 = i64(read_i16_be(data, at + 4))
                at += 6
                if v3 == 0:
                    if sink.topic_span != v1 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v1, NULL)
                    sink.add_partition(v2, v3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[1] = v1
                    slots[2] = v2
                    slots[3] = v3
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v1 or sink.topic_id_span != NULL:
                sink.set_topic(data, v1, NULL)
            sink.topic_count += 1
        return at if at <= size else FAILED


class OffsetCommitResponse3(GeneratedRead):
    """OffsetCommit response v3 to v7."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
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
                if at + 6 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                at += 6
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    sink.row(self.shapes[0], data)
            if sink.topic_span != v2 or sink.topic_id_span != NULL:
                sink.set_topic(data, v2, NULL)
            sink.topic_count += 1
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class OffsetCommitResponse8(GeneratedRead):
    """OffsetCommit response v8 to v9."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
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
                if at + 6 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                at += 6
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v4 == 0:
                    if sink.topic_span != v2 or sink.topic_id_span != NULL:
                        sink.set_topic(data, v2, NULL)
                    sink.add_partition(v3, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
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


class OffsetCommitResponse10(GeneratedRead):
    """OffsetCommit response v10."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        v3: i64 = NULL
        v4: i64 = NULL
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
            if at + 16 > size:
                return FAILED
            v2 = at
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
                if at + 6 > size:
                    return FAILED
                v3 = i64(read_i32_be(data, at))
                v4 = i64(read_i16_be(data, at + 4))
                at += 6
                if at < size and data[at] == 0:
                    at += 1
                else:
                    at = skip_tags(data, at)
                if v4 == 0:
                    if sink.topic_span != NULL or sink.topic_id_span != v2:
                        sink.set_topic(data, NULL, v2)
                    sink.add_partition(v3, v4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
                else:
                    slots = sink.slots
                    slots[2] = v2
                    slots[3] = v3
                    slots[4] = v4
                    sink.row(self.shapes[0], data)
            if at < size and data[at] == 0:
                at += 1
            else:
                at = skip_tags(data, at)
            if sink.topic_span != NULL or sink.topic_id_span != v2:
                sink.set_topic(data, NULL, v2)
            sink.topic_count += 1
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.throttle_ms = v1
        return at if at <= size else FAILED


class HeartbeatRequest0(GeneratedRead):
    """Heartbeat request v0 to v2."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
            at += n2
            if at > size:
                return FAILED
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class HeartbeatRequest3(GeneratedRead):
    """Heartbeat request v3."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        if at + 6 > size:
            return FAILED
        n2 = i64(read_i16_be(data, at + 4))
        at += 6
        if n2 < -1:
            return FAILED
        if n2 >= 0:
            at += n2
            if at > size:
                return FAILED
        if at + 2 > size:
            return FAILED
        n3 = i64(read_i16_be(data, at))
        at += 2
        if n3 < -1:
            return FAILED
        if n3 > 0:
            at += n3
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class HeartbeatRequest4(GeneratedRead):
    """Heartbeat request v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
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
        at += 4
        if at >= size:
            return FAILED
        n2 = i64(data[at]) - 1
        at += 1
        if n2 >= 127:
            n2, at = read_unsigned_varint(data, at - 1)
            n2 -= 1
        if n2 >= 0:
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
        if n3 > 0:
            at += n3
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        sink.group = sink.span_text(data, v1) or sink.group
        return at if at <= size else FAILED


class HeartbeatResponse0(GeneratedRead):
    """Heartbeat response v0."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        if at + 2 > size:
            return FAILED
        v1 = i64(read_i16_be(data, at))
        at += 2
        if v1 == 0:
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            sink.row(self.shapes[0], data)
        return at if at <= size else FAILED


class HeartbeatResponse1(GeneratedRead):
    """Heartbeat response v1 to v3."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        if at + 6 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        at += 6
        if v2 == 0:
            sink.throttle_ms = v1
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            sink.row(self.shapes[0], data)
        return at if at <= size else FAILED


class HeartbeatResponse4(GeneratedRead):
    """Heartbeat response v4."""

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        sink = cast(FieldSink, receiver)
        size: i64 = len(data)
        v1: i64 = NULL
        v2: i64 = NULL
        if at + 6 > size:
            return FAILED
        v1 = i64(read_i32_be(data, at))
        v2 = i64(read_i16_be(data, at + 4))
        at += 6
        if at < size and data[at] == 0:
            at += 1
        else:
            at = skip_tags(data, at)
        if v2 == 0:
            sink.throttle_ms = v1
            sink.top_error = 0
        else:
            slots = sink.slots
            slots[1] = v1
            slots[2] = v2
            sink.row(self.shapes[0], data)
        return at if at <= size else FAILED


# By API key, side and version.
READS: Final[dict[tuple[int, int, int], type[GeneratedRead]]] = {
    (3, 0, 4): MetadataRequest4,
    (3, 0, 5): MetadataRequest4,
    (3, 0, 6): MetadataRequest4,
    (3, 0, 7): MetadataRequest4,
    (3, 0, 8): MetadataRequest8,
    (3, 0, 9): MetadataRequest9,
    (3, 0, 10): MetadataRequest10,
    (3, 0, 11): MetadataRequest11,
    (3, 0, 12): MetadataRequest11,
    (3, 0, 13): MetadataRequest11,
    (3, 1, 4): MetadataResponse4,
    (3, 1, 5): MetadataResponse5,
    (3, 1, 6): MetadataResponse5,
    (3, 1, 7): MetadataResponse7,
    (3, 1, 8): MetadataResponse8,
    (3, 1, 9): MetadataResponse9,
    (3, 1, 10): MetadataResponse10,
    (3, 1, 11): MetadataResponse11,
    (3, 1, 12): MetadataResponse11,
    (3, 1, 13): MetadataResponse13,
    (8, 0, 2): OffsetCommitRequest2,
    (8, 0, 3): OffsetCommitRequest2,
    (8, 0, 4): OffsetCommitRequest2,
    (8, 0, 5): OffsetCommitRequest5,
    (8, 0, 6): OffsetCommitRequest6,
    (8, 0, 7): OffsetCommitRequest7,
    (8, 0, 8): OffsetCommitRequest8,
    (8, 0, 9): OffsetCommitRequest8,
    (8, 0, 10): OffsetCommitRequest10,
    (8, 1, 2): OffsetCommitResponse2,
    (8, 1, 3): OffsetCommitResponse3,
    (8, 1, 4): OffsetCommitResponse3,
    (8, 1, 5): OffsetCommitResponse3,
    (8, 1, 6): OffsetCommitResponse3,
    (8, 1, 7): OffsetCommitResponse3,
    (8, 1, 8): OffsetCommitResponse8,
    (8, 1, 9): OffsetCommitResponse8,
    (8, 1, 10): OffsetCommitResponse10,
    (12, 0, 0): HeartbeatRequest0,
    (12, 0, 1): HeartbeatRequest0,
    (12, 0, 2): HeartbeatRequest0,
    (12, 0, 3): HeartbeatRequest3,
    (12, 0, 4): HeartbeatRequest4,
    (12, 1, 0): HeartbeatResponse0,
    (12, 1, 1): HeartbeatResponse1,
    (12, 1, 2): HeartbeatResponse1,
    (12, 1, 3): HeartbeatResponse1,
    (12, 1, 4): HeartbeatResponse4,
}
