// Command kafka runs a real Kafka of one or three brokers on this machine's loopback interface. It is for tests, and
// for people who want to try weir on one. It needs Java and Maven, no container engine and no root.
//
//	kafka up   [--brokers 1|3] [--dir DIR]  start brokers and leave them running
//	kafka down [--dir DIR]                  stop them
//	kafka run  [--brokers 1|3] [--dir DIR] [--restart-after 5s] [--measure] [--cut] -- COMMAND ARGS...
//	                                        run a command with brokers of its own
//	kafka files [--brokers 1|3] [--dir DIR] TARGET
//	                                        write the brokers' files into TARGET, and start nothing
//
// Brokers have little memory and start soon, and their code is compiled in haste. With --measure they run with the
// options of Kafka's own script, for measuring their resources: give them minutes to become warm.
//
// DIR holds Kafka's jars (libs), and three files about the brokers that up started: brokers lists the addresses,
// environ the variables that run sets for its command, pids the processes. The data begin empty with each up. up
// removes only libs and data with its own mark. A command finds in its environment
//
//	KAFKA_SEEDS       the brokers' plaintext listeners, where everything is allowed
//	KAFKA_SASL_SEEDS  their TLS listeners for SCRAM; there are no users but those that the command makes
//	KAFKA_MTLS_SEEDS  their TLS listeners for client certificates: CN=x,O=weir is User:x
//	KAFKA_CUT         with --cut: a broker is cut from the others while this file has its id; clients still reach it
//	KAFKA_DIR         tls/ca.crt and ca.key, the authority that signs certificates; pids, a line for each broker
//
// With files, the same variables are printed, and KAFKA_LIBS, the directory of the jars. TARGET contains
// brokerN/broker.properties for broker N, whose data will be in brokerN/data, which is yet to be formatted.
//
// A broker that ends while the command runs is started again after a while (0s: never), and the pids are written anew.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Exit statuses; run returns the command's.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `usage: kafka up   [--brokers 1|3] [--dir DIR]
       kafka down [--dir DIR]
       kafka run  [--brokers 1|3] [--dir DIR] [--restart-after 5s] [--measure] [--cut] -- COMMAND ARGS...
       kafka files [--brokers 1|3] [--dir DIR] TARGET
`

// options are the settings of the command line.
type options struct {
	verb         string
	brokers      int
	dir          string        // absolute
	restartAfter time.Duration // of run; 0: never
	measure      bool          // of run
	cut          bool          // of run: brokers can be cut from each other
	command      []string      // of run; of files, the directory
}

// errUsage is returned when the command line is not understood.
var errUsage = errors.New("wrong usage")

func main() {
	// Processes that run starts must die with it. Linux kills them when the thread that started them ends, so that must
	// be the one thread that lasts.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), endSignals(signal.Ignored)...)
	status := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// endSignals are the signals that end a process in order. Under nohup SIGHUP is ignored, and stays so.
func endSignals(ignored func(os.Signal) bool) []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// execute runs the verb of the arguments and returns the exit status.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "kafka: %v\n%s", err, usage)
		return exitUsage
	}
	status := exitDone
	switch o.verb {
	case "up":
		err = up(ctx, o, stdout, stderr)
	case "down":
		err = down(o.dir, stderr)
	case "files":
		err = files(ctx, o, stdout, stderr)
	case "run":
		status, err = run(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "kafka: %v\n", err)
		return exitFailed
	}
	return status
}

// jvm returns the options of a broker's Java.
func (o *options) jvm() []string {
	if o.measure {
		return []string{
			"-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent",
		}
	}
	return []string{"-Xms128m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

func parse(args []string) (options, error) {
	if len(args) == 0 {
		return options{}, fmt.Errorf("%w: up, down, run or files?", errUsage)
	}
	o := options{verb: args[0]}
	flags := flag.NewFlagSet(o.verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.dir, "dir", "", "")
	if o.verb == "run" {
		flags.DurationVar(&o.restartAfter, "restart-after", 5*time.Second, "")
		flags.BoolVar(&o.measure, "measure", false, "")
		flags.BoolVar(&o.cut, "cut", false, "")
	}
	switch o.verb {
	case "up", "run", "files":
		flags.IntVar(&o.brokers, "brokers", 3, "")
	case "down":
		o.brokers = 1
	default:
		return options{}, fmt.Errorf("%w: there is no command %q", errUsage, o.verb)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return options{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	o.command = flags.Args()
	switch {
	case o.restartAfter < 0:
		return options{}, fmt.Errorf("%w: --restart-after %v is in the past", errUsage, o.restartAfter)
	case o.brokers != 1 && o.brokers != 3:
		return options{}, fmt.Errorf("%w: --brokers %d is neither 1 nor 3", errUsage, o.brokers)
	case o.verb == "run" && len(o.command) == 0:
		return options{}, fmt.Errorf("%w: run needs a command", errUsage)
	case o.verb == "files" && len(o.command) != 1:
		return options{}, fmt.Errorf("%w: files needs one directory, and there are %q", errUsage, o.command)
	case (o.verb == "up" || o.verb == "down") && len(o.command) > 0:
		return options{}, fmt.Errorf("%w: %s takes no argument, and there is %q", errUsage, o.verb, o.command[0])
	}
	if o.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return options{}, fmt.Errorf("%w: no --dir, and no place to choose for it: %w", errUsage, err)
		}
		o.dir = filepath.Join(cache, "weir-kafka")
	}
	var err error
	o.dir, err = filepath.Abs(o.dir)
	return o, err
}
