"""For the process of `support.running.warm`: its forks stop or die where their variable FAULT says.

`checkpoint.pt:3:stop` or `:kill`: just before the third file of this name gets it.
"""

import os
import signal

seen = 0


def obeying(rename):
    def renamed(source, target, **options):
        global seen
        name, times, what = os.environ.get("FAULT", "-:0:-").rsplit(":", 2)
        if os.fsdecode(target).endswith(name):
            seen += 1
            if seen == int(times):
                os.kill(os.getpid(), signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        return rename(source, target, **options)

    return renamed


os.rename, os.replace = obeying(os.rename), obeying(os.replace)
