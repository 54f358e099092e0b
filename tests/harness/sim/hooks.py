"""Acts at a chosen event of a simulated world."""


class Nth:
    """Calls `act` at the `nth` event that is counted."""

    def __init__(self, nth, act):
        self.left, self.act = nth, act

    def __call__(self):
        self.left -= 1
        if self.left == 0:
            self.act()


def at_event(world, event, act, node=None, nth=1, **wanted):
    """Call `act` at the instruction that traces the `nth` such event."""
    hook = Nth(nth, act)

    def observe(process, _, fields):
        known = {name: fields.get(name) for name in wanted}
        if node in (None, process.name) and known == wanted:
            hook()

    world.observe(observe, event)
