"""The invocations. Rule: those of a script work on the same directories, one after the other; `$ID` is a cluster's id,
other words with a `$` are in `running.py`."""

from __future__ import annotations

Script = tuple[str, list[str]]  # a configuration's name, and command lines

_SALT = 'salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2k="'
_VOTER = "1@127.0.0.1:19093:JEXY6aqzQY-32P5TStzaFg"


def _format(config: str, *options: str) -> Script:
    return config, [" ".join(["format", "-c", "$CONFIG", "-t", "$ID", *options])]


def _scram(*credentials: str) -> Script:
    return _format("static", *(f"-S {each}" for each in credentials))


_USERS = {
    "a password": f"SCRAM-SHA-256=[name=alice,password=alice-secret,{_SALT}]",
    "a random salt": "SCRAM-SHA-512=[name=alice,password=alice-secret]",
    "the other hash": f"SCRAM-SHA-512=[name=alice,password=alice-secret,{_SALT}]",
    "iterations": f"SCRAM-SHA-256=[name=alice,password=x,iterations=8192,{_SALT}]",
    "iterations in quotes": f'SCRAM-SHA-256=[name=alice,password=x,iterations="5000",{_SALT}]',
    "a salted password": f'SCRAM-SHA-256=[name=a,saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGt",{_SALT}]',
    "both passwords": f'SCRAM-SHA-256=[name=a,password=x,saltedpassword="mT0yyUUxnlJaC99HXgRTSQ==",{_SALT}]',
    "quotes": f'SCRAM-SHA-256=[name="alice",password="x",{_SALT}]',
    "half a quote": f'SCRAM-SHA-256=[name=a,password="x,{_SALT}]',
    "an equals sign": f"SCRAM-SHA-256=[name=a=b,password=x=y,{_SALT}]",
    "other letters": f"SCRAM-SHA-256=[name=é,password=ß,{_SALT}]",
    "a name twice": f"SCRAM-SHA-256=[name=a,name=b,password=x,{_SALT}]",
    "a comma at the end": f"SCRAM-SHA-256=[name=a,password=x,{_SALT},]",
    "no name": "SCRAM-SHA-512=[password=x]",
    "an empty name": f"SCRAM-SHA-512=[name=,password=x,{_SALT}]",
    "no password": "SCRAM-SHA-512=[name=alice]",
    "no salt": 'SCRAM-SHA-256=[name=a,saltedpassword="mT0yyUUxnlJaC99HXgRTSQ=="]',
    "a bad salt": "SCRAM-SHA-256=[name=alice,salt=!!,password=y]",
    "too few iterations": "SCRAM-SHA-512=[name=alice,password=x,iterations=100]",
    "too many iterations": "SCRAM-SHA-512=[name=alice,password=x,iterations=16385]",
    "iterations in words": "SCRAM-SHA-512=[name=alice,password=x,iterations=abc]",
    "no iterations": "SCRAM-SHA-512=[name=alice,password=x,iterations=]",
    "another mechanism": "SCRAM-SHA-1=[name=alice,password=x]",
    "PLAIN": "PLAIN=[name=alice,password=x]",
    "small letters": "scram-sha-256=[name=alice,password=x]",
    "no mechanism": "=[name=alice,password=x]",
    "no equals sign": "bogus",
    "no bracket": "SCRAM-SHA-256=name=alice",
    "no end": "SCRAM-SHA-256=[name=a,password=x",
    "nothing in brackets": "SCRAM-SHA-256=[]",
    "a word alone": "SCRAM-SHA-256=[name,password=x]",
    "an empty part": "SCRAM-SHA-256=[,name=a,password=x]",
    "a comma in a value": 'SCRAM-SHA-512=[name="alice",password="a,b=c]"]',
    "unknown words": "SCRAM-SHA-256=[name=a,zz=1,aa=2,password=x]",
}
_RELEASES = (
    "3.2-IV0",
    "3.3-IV3",
    "3.3",
    "3.5-IV2",
    "3.5",
    "3.9",
    "4.0",
    "4.1-IV1",
    "4.3-IV0",
    "4.3.1",
    "4.4-IV0",
    "4.4",
    "4.5-IV0",
    "no",
)
_FEATURES = (
    "metadata.version=5",
    "metadata.version=20",
    "metadata.version=31",
    "metadata.version=34",
    "metadata.version=x",
    "transaction.version=0",
    "transaction.version=3",
    "transaction.version=-1",
    "transaction.version",
    "transaction.version=x",
    "group.version=1",
    "share.version=2",
    "kraft.version=0",
    "kraft.version=1",
    "kraft.version=2",
    "eligible.leader.replicas.version=1",
    "bogus=1",
)
_VOTERS = {
    "this node": _VOTER,
    "another node": "2@127.0.0.1:19093:JEXY6aqzQY-32P5TStzaFg",
    "two nodes": f"{_VOTER},2@[::1]:1:MvDxzVmcRsaTz33bUuRU6A,",
    "no at": "bogus",
    "no port": "1@h",
    "no directory": "1@127.0.0.1:19093",
    "a port in words": "1@127.0.0.1:x:JEXY6aqzQY-32P5TStzaFg",
    "a bad port": "1@h:-1:MvDxzVmcRsaTz33bUuRU6A",
    "a node in words": "x@127.0.0.1:1:JEXY6aqzQY-32P5TStzaFg",
    "a short directory": "1@127.0.0.1:1:JEXY6aqzQY",
    "half a bracket": "1@[::1:1:MvDxzVmcRsaTz33bUuRU6A",
    "a node twice": f"{_VOTER},{_VOTER}",
}

SCRIPTS: dict[str, Script] = {
    "format, and again": (
        "static",
        [
            "info -c $CONFIG",
            "format -c $CONFIG -t $ID",
            "info -c $CONFIG",
            "format -c $CONFIG -t $ID",
            "format -c $CONFIG -t $ID -g",
            "format -c $CONFIG -t Kk5kbbkLRcGAu8_9Fmj0yA -g",
        ],
    ),
    "two directories": (
        "two",
        [
            "format -c $CONFIG -t $ID",
            "info -c $CONFIG",
            "$LOSE b",
            "info -c $CONFIG",
            "format -c $CONFIG -t $ID --ignore-formatted",
            "info -c $CONFIG",
            "$NODE b 2",
            "info -c $CONFIG",
            "format -c $CONFIG -t $ID -g",
            "$NODE b 1",
            "$CLUSTER b Kk5kbbkLRcGAu8_9Fmj0yA",
            "info -c $CONFIG",
            "format -c $CONFIG -t $ID -g",
        ],
    ),
    "what is no directory": ("two", ["$FILE b", "info -c $CONFIG", "format -c $CONFIG -t $ID", "info -c $CONFIG"]),
    "what is not formatted": ("two", ["$FOLDER a", "info -c $CONFIG", "format -c $CONFIG -t $ID"]),
    "no directory at all": ("static", ["$FILE logs", "format -c $CONFIG -t $ID"]),
    "another metadata directory": ("metadata", ["format -c $CONFIG -t $ID -s", "info -c $CONFIG"]),
    "a name for a cluster": ("static", ["format -c $CONFIG -t my-cluster"]),
    "standalone": _format("dynamic", "--standalone"),
    "standalone, an older release": _format("dynamic", "-s", "-r 3.8"),
    "standalone, static voters": _format("static", "--standalone"),
    "standalone, no controller": _format("broker", "-s"),
    "standalone, kraft.version 0": _format("dynamic", "-s", "-f kraft.version=0"),
    "standalone, kraft.version 1": _format("dynamic", "-s", "-f kraft.version=1"),
    "standalone, kraft.version 2": _format("dynamic", "-s", "-f kraft.version=2"),
    "no quorum named": _format("dynamic"),
    "no initial controllers": _format("dynamic", "--no-initial-controllers"),
    "no initial controllers, static voters": _format("static", "-N"),
    "initial controllers, static voters": _format("static", f"-I {_VOTER}"),
    "a broker alone": _format("broker"),
    "a broker alone, no initial controllers": _format("broker", "-N"),
    "a broker alone, initial controllers": _format("broker", f"-I {_VOTER}"),
    "two ways at once": _format("dynamic", "-s", "-N"),
    "unknown option": _format("static", "--bogus"),
    "no cluster": ("static", ["format -c $CONFIG"]),
    "no configuration": ("static", ["format -t $ID", "info"]),
    "no command": ("static", ["version-mapping extra", "random-uuid extra"]),
    "an older release, SCRAM": _format("static", "-r 3.4", f"-S {_USERS['a password']}"),
    "two users": _scram(_USERS["a password"], _USERS["the other hash"], _USERS["iterations"]),
    "release and metadata.version": _format("static", "-r 4.0", "-f metadata.version=25"),
    "release and feature": _format("static", "-r 3.5", "-f transaction.version=2"),
    "release and missing dependency": _format("static", "-r 3.9", "-f eligible.leader.replicas.version=1"),
    "a feature twice": _format("static", "-f group.version=1", "-f group.version=0"),
    "the latest mapping": ("static", ["version-mapping"]),
    "two features": ("static", ["feature-dependencies -f metadata.version=25 --feature transaction.version=2"]),
    **{f"user with {name}": _scram(each) for name, each in _USERS.items()},
    **{
        f"release {each}": ("static", [f"format -c $CONFIG -t $ID -r {each}", f"version-mapping -r {each}"])
        for each in _RELEASES
    },
    **{
        f"feature {each}": ("static", [f"format -c $CONFIG -t $ID -f {each}", f"feature-dependencies -f {each}"])
        for each in _FEATURES
    },
    **{f"voters: {name}": _format("dynamic", f"-I {each}") for name, each in _VOTERS.items()},
}
