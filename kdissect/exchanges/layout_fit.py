"""Layout fit: whether bytes fit a message to the last byte, as far as they go, or not at all."""

from typing import Final

from librt.strings import read_i16_be
from mypy_extensions import i64

from kdissect.errors import DecodeError, UnknownApi
from kdissect.messages.headers import (
    is_plausible_request,
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.protocol.plans import Plan, Plans
from kdissect.protocol.readers import Sink

NOT: Final = 0
# As far as it was captured, or whole with a nearly empty body.
PLAUSIBLE: Final = 1
EXACT: Final = 2
LONG: Final = 3  # so much of a frame that it counts as all
# Bodies below this size fit too many layouts.
TELLING_SIZE: Final = 8
LONG_PREFIX: Final = 1 << 16
PADDING: Final = 8  # zeros behind the last field, at most
# First bytes examined of a large body, and the factor for each further try while it fits: a body
# that does not fit is seldom read to its end.
FIRST_LOOK: Final = 256
MORE_EACH: Final = 8
# Steps (see `frame_search`) of examining a frame, of reading each of its bytes, of an error.
FIT_STEPS: Final = 16
STEPS_A_BYTE: Final = 4
ERROR_STEPS: Final = 256


class LayoutFit:
    """Tries the layouts of `plans`; decoded values are discarded."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.scratch = Sink()
        # Work done so far, in steps of `frame_search`.
        self.steps: i64 = 0

    def request_in(self, data: bytes, start: i64, stop: i64, size: i64) -> i64:
        """Like `request` for ``data[start:stop]``, copying no more than necessary."""
        stage = start + FIRST_LOOK
        while stage < stop:
            # A part that does not fit does not fit with more bytes behind it either.
            if self.request(data[start:stage], size) == NOT:
                return NOT
            stage = start + (stage - start) * MORE_EACH
        return self.request(data[start:stop], size)

    def response_in(
        self, key: i64, version: i64, data: bytes, start: i64, stop: i64, size: i64
    ) -> i64:
        """Like `request_in`, for `response`."""
        stage = start + FIRST_LOOK
        while stage < stop:
            if self.response(key, version, data[start:stage], size) == NOT:
                return NOT
            stage = start + (stage - start) * MORE_EACH
        return self.response(key, version, data[start:stop], size)

    def request(self, data: bytes, size: i64) -> i64:
        """Fit of a request frame of `size` bytes, of which `data` are the first."""
        is_whole = len(data) == size
        self.steps += FIT_STEPS
        if not is_plausible_request(data, is_whole):
            return NOT
        has_client_id = len(data) >= 10 and i64(read_i16_be(data, 8)) > 0
        try:
            header = read_request_header(data)
            plans = self._layouts(header.api_key, header.api_version, False)
        except DecodeError as error:
            return self._fit_of_first(error, data, size)
        if not plans:
            return PLAUSIBLE if has_client_id else NOT
        found = self._best(plans, data, header.body_offset, size)
        if has_client_id:
            if found == NOT and is_whole and self._is_padded(plans, data, header.body_offset):
                return PLAUSIBLE
            return found
        is_telling = len(data) == size and size - header.body_offset >= TELLING_SIZE
        return found if is_telling else min(found, PLAUSIBLE)

    def is_exact(self, data: bytes, least: i64 = 0) -> bool:
        """Return whether a whole request decodes to its last byte, with any client id.

        A client may choose its id so that no other evidence would find it. With `least`, the
        request must have a client id, and a body of so many bytes.
        """
        self.steps += FIT_STEPS
        try:
            header = read_request_header(data)
            plans = self._layouts(header.api_key, header.api_version, False)
        except DecodeError:
            return False
        if least > 0:
            has_client_id = header.client_id_size > 0
            if not has_client_id or len(data) - header.body_offset < least:
                return False
        return self._best(plans, data, header.body_offset, len(data)) == EXACT

    def response(self, key: i64, version: i64, data: bytes, size: i64) -> i64:
        """Fit of a response, header included, to a request of this API key and version."""
        self.steps += FIT_STEPS
        if len(data) < 4:
            return PLAUSIBLE if size >= 4 else NOT
        try:
            offset = response_body_offset(key, version, data)
            plans = self._layouts(key, response_layout_version(key, version, data), True)
        except DecodeError as error:
            return self._fit_of_first(error, data, size)
        return self._best(plans, data, offset, size) if plans else PLAUSIBLE

    def may_be_response(self, data: bytes) -> bool:
        """Return whether bytes that read like a request may be a response as well.

        A small correlation id reads as the key of Produce and a version; without a layout for it,
        nothing in the body proves it.
        """
        if len(data) < 4 or read_i16_be(data, 0) != 0:
            return False
        return not self._layouts(0, i64(read_i16_be(data, 2)), False)

    def _layouts(self, key: i64, version: i64, is_response: bool) -> list[Plan]:
        """Layouts of a body; none for an unknown key or version."""
        try:
            plan = self.plans.get(key, version, is_response)
        except UnknownApi:
            return []
        return [plan, *self.plans.variants(key, version, is_response)]

    def _best(self, plans: list[Plan], data: bytes, offset: i64, size: i64) -> i64:
        best: i64 = NOT
        for plan in plans:
            best = max(best, self._fit(plan, data, offset, size))
        return best

    def _is_padded(self, plans: list[Plan], data: bytes, offset: i64) -> bool:
        """Return whether zeros follow the last field; old clients send them after ApiVersions v0.

        No more than PADDING: a body that ends early for another reason is none.
        """
        for plan in plans:
            try:
                end = plan.run(data, offset, self.scratch)
            except DecodeError as error:
                self.steps += ERROR_STEPS + STEPS_A_BYTE * max(0, error.offset)
                continue
            self.steps += STEPS_A_BYTE * end
            if len(data) - end <= PADDING and not any(data[end:]):
                return True
        return False

    def _fit(self, plan: Plan, data: bytes, offset: i64, size: i64) -> i64:
        try:
            end = plan.run(data, offset, self.scratch)
        except DecodeError as error:
            return self._fit_of_first(error, data, size)
        self.steps += STEPS_A_BYTE * end
        return EXACT if end == size else NOT

    def _fit_of_first(self, error: DecodeError, data: bytes, size: i64) -> i64:
        """Fit of the first bytes of a frame of `size` bytes, of which no more can be read."""
        self.steps += ERROR_STEPS + STEPS_A_BYTE * max(0, error.offset)
        needed: i64 = error.needed
        if len(data) >= size or needed < 0 or needed > size:
            return NOT
        return LONG if len(data) >= LONG_PREFIX else PLAUSIBLE
