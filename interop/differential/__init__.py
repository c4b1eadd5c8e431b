"""The same made-up requests to a real Kafka and to this broker, and their answers side by side.

Rule: everything follows from a seed. A sequence is data that names nothing of a broker: what an answer gave (a topic's
id, a producer's, a member's) is written as a reference, which each broker's `World` resolves to what that broker said.
So the same sequence goes to both, a part of it is a sequence too (a difference is made smaller by leaving steps out),
and it can be kept as JSON together with Kafka's answers, for a machine that has no Java.

    python -m interop.differential --steps 2000    against a real Kafka: differences by class, each as a short script
    python -m interop.differential --steps 100000 --jobs 4 --seed $(date +%Y%m%d)0000      a night's run
    python -m interop.differential --steps 5000 --edges          with requests that have odd values between the others
    python -m interop.differential --record        writes `recorded/` anew
"""
