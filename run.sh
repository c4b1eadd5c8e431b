# run.sh NAME WORKTREE pytest-args
N=$1; shift; WT=$1; shift
cd $WT; export PYTHONPATH=$WT:/tmp/t-sparkcpu/tools CPUPLUG_OUT=/tmp/t-sparkcpu/$N
rm -f /tmp/t-sparkcpu/$N.[gm]*
/work/main/.venv/bin/python -m pytest -p cpuplug -q -p no:cacheprovider "$@" > /tmp/t-sparkcpu/$N.log 2>&1
grep -E "passed|failed" /tmp/t-sparkcpu/$N.log
python3 /tmp/t-sparkcpu/tools/sum.py /tmp/t-sparkcpu/$N 0 | cut -c1-160
