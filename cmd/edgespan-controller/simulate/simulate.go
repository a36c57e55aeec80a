package simulate

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edgespan/actors/simulate"
	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/topology"
	"edgespan/config/fleet/topology/sketch"
)

const aboutSimulate = `Join simulated nodes to a controller and check that all of them reach their desired config.

Each node has its own certificate and stream, the config actor of a real node, and a folder on the
disk. Only its host is simulated: it applies every config at once. Without --controller, the
simulation starts a controller of its own, on loopback and in a temporary folder, and ends it
afterwards.

Faults are injected at a node's first push, at the push that --faults-at names, or at that of
--rollout. These nodes count as done when the controller shows them as failed:

  reject      finds every config invalid
  unhealthy   gets worse with the config, and undoes it

These must reach their desired config in the end, like all others:

  silent      sends nothing for 12 s
  crash       ends while it applies the config, and starts again
  disconnect  loses its stream before it has answered
  linkloss    loses its links for 10 s; all nodes behind it in the topology lose their streams
  rollback    never receives the confirmation, and undoes the config

A node with 'hang' accepts the config and sends nothing until it is sent another one: it counts as
failed in a rollout.

--topology KIND generates a topology of the nodes and gives it to the controller. --rollout KEY=VALUE
turns on staged rollouts in the simulation's own controller, makes the change once all nodes have
converged, and prints each batch. The rollout must end as the faults require: halted in the batch in
which too many nodes failed, otherwise done. A node is down while it applies a config. Each time, the
simulation checks whether all other nodes still have a path to a point of presence; if a node lost
its path that a better plan would have kept, the exit code is 1.

Progress goes to stderr. At the end, 'converged N of N' is printed on stdout with exit code 0.
Otherwise the states of the waiting nodes are printed, and the exit code is 3, as for a rollout that
does not end as it must. One process can simulate some 9,000 nodes with a limit of 20,000 file
descriptors (see 'ulimit -n'): run several with different --name.`

// simulation are the flags of a simulation.
type simulation struct {
	term.Target
	*serve.Options
	nodes                     int
	name                      string
	until                     string
	duration, every           time.Duration
	faults                    string
	seed                      uint64
	dir, disk                 string
	software, board           string
	joins                     int
	networkWrites, nodeWrites int
	output                    string
	commands                  bool

	bounded bool // --duration was given: it includes joining
	idle    time.Duration
	planned simulate.FaultRates

	faultsAt  int
	applyTime time.Duration
	topology  string
	sketched  sketch.SketchPlan  // of --topology KIND
	network   *topology.Topology // of --topology; may be nil
	rollout   []string
	change    config.Object // of --rollout
	atOnce    bool
	flags     map[string]string
}

// untilConverged is the only value of --until.
const untilConverged = "converged"

// longest is the default duration.
const longest = 10 * time.Minute

// New returns the command.
func New(a *serve.App) *cobra.Command {
	s := &simulation{Options: serve.NewOptions()}
	cmd := &cobra.Command{
		Use:   "simulate --nodes N",
		Short: "Join simulated nodes to a controller and check that they converge",
		Long:  aboutSimulate,
		Example: `  edgespan-controller simulate --nodes 200
  edgespan-controller simulate --nodes 50 --faults reject=2%,crash=10%,disconnect=10% -o json
  edgespan-controller simulate --nodes 50 --topology grid --rollout sysParams.logLevel=debug
  edgespan-controller simulate --nodes 50 --topology figure-eight --rollout sysParams.logLevel=debug --faults ` +
			`unhealthy=100%
  edgespan-controller simulate --nodes 1000 --controller https://fleet:8443 --token-file F --ca-sha256 H --duration 1h`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(cmd); err != nil {
				return err
			}
			return simulateNodes(cmd.Context(), a, s)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.nodes, "nodes", 0, "number of nodes")
	f.StringVar(&s.name, "name", "sim", "prefix of the nodes' names")
	f.StringVar(&s.Controller, "controller", "", "URL of a running controller (default: the simulation starts its own)")
	f.StringVar(&s.TokenFile, "token-file", "", "file with an administrator's token for that controller")
	f.StringVar(&s.CAFile, "ca-file", "", "PEM file of the CA that signed that controller's certificate")
	f.StringVar(&s.CASHA256, "ca-sha256", "", "fingerprint of that CA, as printed at the controller's first start")
	f.StringVar(&s.until, "until", "",
		"converged: end as soon as every node has converged (default without --duration)")
	f.DurationVar(&s.duration, "duration", 0,
		"how long the nodes run; with --until converged: the time limit, from the first join on "+
			"(default 10m, after all have joined)")
	f.DurationVar(&s.every, "report-interval", 5*time.Second, "how often a node reports")
	f.StringVar(&s.faults, "faults", "", "share of the nodes with each fault, as in reject=1%,crash=2%: "+
		simulate.FaultWords())
	f.IntVar(&s.faultsAt, "faults-at", 0,
		"which push to a node injects its fault, counted from 1 (default: the first one, or the rollout's)")
	f.DurationVar(&s.applyTime, "apply-time", 0,
		"how long a node takes to apply a config; it is down meanwhile (default 1s with --rollout)")
	f.StringVar(&s.topology, "topology", "",
		"KIND or KIND:SIZE of a topology to generate, SIZE nodes for each point of presence, or a topology file: "+
			sketch.KindList())
	f.StringArrayVar(&s.rollout, "rollout", nil,
		"KEY=VALUE of the network layer: roll it out in batches after that, and print each batch; repeatable")
	f.BoolVar(&s.atOnce, "at-once", false, "make the change of --rollout without batches, for comparison")
	f.StringToStringVar(&s.flags, "controller-flags", nil,
		"NAME=VALUE for the config of the simulation's own controller, as in config_rollout_batch_limit=20")
	f.Uint64Var(&s.seed, "seed", 1, "seed for the choice of the nodes with faults; the same seed chooses the same nodes")
	f.StringVar(&s.dir, "dir", "", "folder of the nodes' disks; kept at the end (default: a temporary one)")
	f.StringVar(&s.disk, "disk", diskFolder, "folder: each write is synced, as on a node; memory: nothing is written")
	f.StringVar(&s.software, "software", "", "software version of the nodes (default: the latest base layer's)")
	f.StringVar(&s.board, "board", "", "hardware board of the nodes")
	f.IntVar(&s.joins, "joins", 16, "number of nodes that join at the same time")
	s.bindMeasured(f)
	s.BindLayers(cmd)
	f.StringVarP(&s.output, "output", "o", "", "json for all counts and measurements")
	return cmd
}

// check returns all faults of the command line together.
func (s *simulation) check(cmd *cobra.Command) error {
	var faults []error
	no := func(err error) { faults = append(faults, err) }
	s.checkRollout(cmd, no)
	if s.nodes < 1 || s.nodes > 100_000 {
		no(term.Invalid("--nodes", s.nodes, "1 to 100000"))
	}
	if s.every < 100*time.Millisecond {
		no(term.Invalid("--report-interval", s.every, "at least 100ms"))
	}
	if s.joins < 1 || s.joins > 1000 {
		no(term.Invalid("--joins", s.joins, "1 to 1000"))
	}
	if s.networkWrites < 0 || s.nodeWrites < 0 {
		no(term.Invalid("--network-writes and --node-writes", min(s.networkWrites, s.nodeWrites), "0 or more"))
	}
	if s.commands && (len(s.rollout) > 0 || s.networkWrites+s.nodeWrites > 0 || s.until != "" || s.duration > 0) {
		no(term.Usagef("--commands: must be used without --until, --duration, --rollout, --network-writes and --node-writes"))
	}
	if s.until != "" && s.until != untilConverged {
		no(term.Invalid("--until", s.until, untilConverged))
	}
	if cmd.Flags().Changed("duration") && s.duration <= 0 {
		no(term.Invalid("--duration", s.duration, "more than 0s"))
	}
	if s.disk != diskFolder && s.disk != diskMemory {
		no(term.NotOneOf("--disk", s.disk, []string{diskFolder, diskMemory}))
	}
	if s.output != "" && s.output != "json" {
		no(term.Invalid("--output", s.output, "json"))
	}
	var err error
	if s.planned, err = simulate.ParseFaults(s.faults); err != nil {
		no(term.Usagef("--%w", err))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	s.bounded = s.duration > 0 && s.until == untilConverged
	if s.duration == 0 {
		s.duration, s.until = longest, untilConverged
	}
	return nil
}

// checkRollout checks the flags for the topology and the rollout.
func (s *simulation) checkRollout(cmd *cobra.Command, no func(error)) {
	var err error
	if s.topology != "" {
		if err := s.readTopology(cmd.Flags().Changed("nodes")); err != nil {
			no(term.Usagef("--%w", err))
		}
	}
	if cmd.Flags().Changed("faults-at") && s.faultsAt < 1 {
		no(term.Invalid("--faults-at", s.faultsAt, "1 or more"))
	}
	if s.applyTime < 0 || s.applyTime > time.Minute {
		no(term.Invalid("--apply-time", s.applyTime, "0s to 1m"))
	}
	if s.change, err = assigned(s.rollout); err != nil {
		no(term.Usagef("--rollout: %w", err))
	}
	if s.atOnce && len(s.rollout) == 0 {
		no(term.Requires("--at-once", "--rollout"))
	}
	if len(s.flags) > 0 && (s.Controller != "" || len(s.rollout) == 0) {
		no(term.Requires("--controller-flags", "--rollout and a controller started by this command (no --controller)"))
	}
	if len(s.rollout) > 0 && !cmd.Flags().Changed("apply-time") {
		s.applyTime = time.Second
	}
}

// measured is the document of -o json.
type measured struct {
	simulate.Progress
	Undone  int                            `json:"undone"` // pushes that nodes undid without a fault that says so
	Seed    uint64                         `json:"seed"`
	Faults  map[simulate.InjectedFault]int `json:"faults"` // requested, as numbers of nodes
	Disk    string                         `json:"disk"`   // folder, or memory: nothing was written
	Seconds measuredSeconds                `json:"seconds"`
	First   simulate.Round                 `json:"first"` // of the first config, since the start of the nodes
	Network []simulate.Round               `json:"networkWrites"`
	Rollout *measuredRollout               `json:"rollout,omitempty"`
	Node    *measuredNodeWrites            `json:"nodeWrites,omitempty"`
	Memory  measuredMemory                 `json:"memoryBytes"`
	CPU     measuredCPU                    `json:"cpuSeconds"`
	Idle    *measuredIdle                  `json:"idle,omitempty"`
}

type measuredSeconds struct {
	Join     float64 `json:"join"`     // invitations and certificates of all nodes
	Converge float64 `json:"converge"` // since the start of the nodes
	Total    float64 `json:"total"`
}

type measuredNodeWrites struct {
	Writes    int            `json:"writes"`
	Acked     simulate.Times `json:"acked"`
	Confirmed simulate.Times `json:"confirmed"`
	Others    int            `json:"othersTouched"` // pushes to nodes that were not written
}

// measuredIdle is what the controller used while its nodes only sent reports.
type measuredIdle struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuSeconds"`
	Share   float64 `json:"ofACore"`
	Written int64   `json:"bytesWritten"` // to its disk
}

// measuredMemory has resident bytes, and measuredCPU seconds since the start; both are 0 for another controller.
type measuredMemory struct {
	Controller int64 `json:"controller"`
	Simulator  int64 `json:"simulator"`
	Goroutines int   `json:"goroutines"` // of the simulator
}

type measuredCPU struct {
	Controller float64 `json:"controller"`
	Simulator  float64 `json:"simulator"`
}

// lines formats the result of a simulation.
func (m *measured) lines() string {
	text := m.Progress.String() + "\n"
	if r := m.Rollout; r != nil {
		if !r.ended() {
			text = "before the rollout: " + text
		}
		text += r.String() + "\n"
		if p := r.Paths; p != nil {
			text += fmt.Sprintf("paths: looked at %d times, %d nodes lost one that they need not have lost\n", p.Looks, p.Broken)
		}
	}
	return text
}

func (m *measured) goroutines() { m.Memory.Goroutines = runtime.NumGoroutine() }

// bindMeasured adds the flags of the measurements after convergence.
func (s *simulation) bindMeasured(f *pflag.FlagSet) {
	f.IntVar(&s.networkWrites, "network-writes", 0,
		"number of network overrides of one key to write after that; each is measured")
	f.BoolVar(&s.commands, "commands", false, "keep the nodes until stdin ends, and answer each line of it by one of "+
		"JSON: round (what nodes do from now on counts), state")
	f.IntVar(&s.nodeWrites, "node-writes", 0, "number of node overrides to write after that; each is measured")
	f.DurationVar(&s.idle, "idle", 0,
		"idle time after that, in which the controller's resources are measured")
}
