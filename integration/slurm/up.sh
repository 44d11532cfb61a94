#!/bin/sh
# Runs Slurm on this machine, with several slurmd, until it is asked to end (SIGTERM, Ctrl-C, or its standard input closes). Needs
# root and Debian's slurmctld, slurmd, slurm-client and munge. Not slurm-wlm-emulator, which takes their place and does not start.
#
#   up.sh DIR [NODES]
#
# DIR must not exist, be short enough for a socket's path, and lie where user munge can read. It then has slurm.conf, for
# SLURM_CONF; ready, once all nodes are idle; run/NODE.pid and run/ctld.pid, the processes of slurmd and slurmctld; log/; and drop/, for prolog and
# epilog; report/NODE/, where the jobs of a node report. Nodes are n1, n2, .. with two CPUs each. Partition smt has t1 and t2, whose slurmd are made to see two cores of two hardware
# threads, numbered as Linux does; log/NODE has slurmd's map of them. Slurm's CPUs are the threads of t1, and the cores of t2.
set -eu

dir=${1:?usage: up.sh DIR [NODES]}
nodes=${2:-4}
exec 3<&0
here=$(cd "$(dirname "$0")" && pwd)
mkdir "$dir"
dir=$(cd "$dir" && pwd)
chmod 755 "$dir"
mkdir "$dir/state" "$dir/spool" "$dir/run" "$dir/log" "$dir/munge" "$dir/drop" "$dir/report"

for command in munged slurmctld slurmd squeue scontrol scancel; do
	command -v $command >/dev/null || {
		echo "up.sh: $command is missing: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge" >&2
		exit 3
	}
done

# A free port for each: others may run Slurm here too.
ports=$(python3 -c '
import socket, sys
all = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in all: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in all])' $((nodes + 3)))
# shellcheck disable=SC2086 # they are words
set -- $ports
host=$(hostname -s)

# Short times, so that a test need not wait for what takes minutes in production: a dead slurmd is noticed after 10 s
# (SlurmdTimeout), and a job that it had may run again after 5 more (cred_expire).
cat >"$dir/slurm.conf" <<END
ClusterName=testbed
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=5
MessageTimeout=3
KillWait=2
MinJobAge=120
SchedulerParameters=bf_interval=2,sched_interval=2
SlurmdParameters=config_overrides
PrologSlurmctld=$dir/prolog
EpilogSlurmctld=$dir/epilog
Prolog=$dir/node-prolog
Epilog=$dir/node-epilog
TaskProlog=$dir/task-prolog
PartitionName=batch Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP
PartitionName=smt Nodes=t[1-2] MaxTime=INFINITE State=UP
END
# define NAME PORT CPUS THREADS: a node of one socket with two cores.
define() {
	mkdir "$dir/spool/$1" "$dir/report/$1"
	echo "NodeName=$1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=$3 Sockets=1 CoresPerSocket=2 ThreadsPerCore=$4 RealMemory=1000" >>"$dir/slurm.conf"
}
for hook in prolog epilog; do
	printf '#!/bin/sh\nDROP_DIR=%s exec %s\n' "$dir/drop" "$here/../../deploy/slurm/$hook" >"$dir/$hook"
	chmod 755 "$dir/$hook"
done
# The nodes are one host, so each has a directory of its own for the reports of its jobs.
for hook in node-prolog node-epilog task-prolog; do
	printf '#!/bin/sh\nREPORT_DIR=%s/$SLURMD_NODENAME PERF_LOCK=%s exec %s\n' "$dir/report" "$dir/lock" \
		"$here/../../deploy/slurm/$hook" >"$dir/$hook"
	chmod 755 "$dir/$hook"
done
shift
define t1 "$1" 4 2
define t2 "$2" 2 2
shift
n=1
while [ $n -le "$nodes" ]; do
	shift
	define n$n "$1" 2 1
	n=$((n + 1))
done
dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 2>/dev/null
chmod 400 "$dir/munge.key"
chown munge "$dir/munge.key" "$dir/munge"
export SLURM_CONF="$dir/slurm.conf"

# All of them are our children and stay in the foreground, so that their numbers are theirs until we have waited for them.
children=
stop() {
	trap - EXIT INT TERM HUP
	# slurmd leaves the steps of its jobs behind when it ends: they must be gone first.
	timeout 5 scancel --user root >/dev/null 2>&1 || true
	tries=0
	while [ $tries -lt 50 ] && [ -n "$(steps)" ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	# shellcheck disable=SC2046,SC2086 # they are words
	kill -9 $(steps) 2>/dev/null || true
	# shellcheck disable=SC2086 # they are words
	kill $children 2>/dev/null || true
	wait
}

# steps prints the processes of jobs of ours: they have our configuration in their environment.
steps() {
	for p in /proc/[0-9]*; do
		case $(cat "$p/comm" 2>/dev/null) in
		slurmstepd | slurm_script)
			if { tr '\0' '\n' <"$p/environ"; } 2>/dev/null | grep -qxF "SLURM_CONF=$dir/slurm.conf"; then echo "${p#/proc/}"; fi
			;;
		esac
	done
}
trap stop EXIT
trap 'exit 0' INT TERM HUP

su -s /bin/sh munge -c "exec munged --foreground --key-file='$dir/munge.key' --socket='$dir/munge/socket' \
	--pid-file='$dir/munge/pid' --log-file='$dir/munge/log' --seed-file='$dir/munge/seed'" 2>"$dir/log/munged" 3<&- &
children="$children $!"
tries=0
while [ ! -S "$dir/munge/socket" ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { echo "up.sh: munged does not listen:" >&2; cat "$dir/log/munged" "$dir/munge/log" >&2; exit 1; }
	sleep 0.05
done
slurmctld -D -c >/dev/null 2>&1 3<&- &
children="$children $!"
echo $! >"$dir/run/ctld.pid"
n=1
while [ $n -le "$nodes" ]; do
	slurmd -D -N "n$n" >/dev/null 2>&1 3<&- &
	children="$children $!"
	echo $! >"$dir/run/n$n.pid"
	n=$((n + 1))
done
for n in t1 t2; do
	HWLOC_SYNTHETIC='pack:1 core:2 pu:2(indexes=0,2,1,3)' slurmd -D -N $n -vvvv >/dev/null 2>&1 3<&- &
	children="$children $!"
	echo $! >"$dir/run/$n.pid"
done
tries=0
while [ "$(timeout 5 sinfo --noheader --Node --format='%T' 2>/dev/null | grep -cx idle)" != $((nodes + 2)) ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { echo "up.sh: the nodes do not become idle:" >&2; tail -n 20 "$dir"/log/* >&2; exit 1; }
	sleep 0.2
done
echo ready >"$dir/ready"
echo "export SLURM_CONF=$dir/slurm.conf"
# A shell hears signals only while it waits, and gives what it starts in the background no standard input of its own.
cat <&3 >/dev/null &
children="$children $!"
wait $!
