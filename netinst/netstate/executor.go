package netstate

// Executor is a process or a systemd unit that must run on the host.
type Executor struct {
	ID   string // the parameter's id
	Unit string // a systemd unit; the other fields are then empty
	Argv []string
	Env  map[string]string // in addition to PATH
	Dir  string            // "" for /
	Once bool              // it must exit with 0, and is not restarted
}

// Condition is the observed state of an executor.
type Condition int

// The conditions.
const (
	Missing   Condition = iota // it does not run, or another process runs in its place
	Running                    // a process of Once is still running
	AsDesired                  // it is as desired
	Failed                     // a process of Once has failed
)
