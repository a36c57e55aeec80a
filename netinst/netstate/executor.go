package netstate

// Executor is a process or a systemd unit that is to run on the host.
type Executor struct {
	ID   string // of the parameter
	Unit string // a unit of systemd; then nothing of the rest is set
	Argv []string
	Env  map[string]string // beside PATH
	Dir  string            // "" for /
	Once bool              // it is to end with 0, and is not started again
}

// Condition is how an executor is.
type Condition int

// The conditions.
const (
	Missing Condition = iota // it does not run, or something else runs in its place
	Running                  // a process of Once runs still
	Right                    // it is as it is wanted
	Spoilt                   // a process of Once ended otherwise than with 0
)
