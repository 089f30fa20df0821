"""What is played while the recorder listens: one scenario a module."""

from tools.record.recording import Scenario
from tools.record.scenarios import quickstart, volume

SCENARIOS = {
    "quickstart": Scenario(quickstart.play, quickstart.BROKER_PROPERTIES),
    "bulk": Scenario(volume.play_bulk, volume.BROKER_PROPERTIES),
    "small": Scenario(volume.play_small, volume.BROKER_PROPERTIES),
}
