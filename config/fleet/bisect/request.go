package bisect

import (
	"fmt"
	"slices"
	"time"

	"edgespan/config"
)

// Request asks for a search.
type Request struct {
	Nodes    []string `json:"nodes"`
	Canary   string   `json:"canary,omitempty"` // one of the nodes; "": the first
	Good     uint64   `json:"good"`
	Bad      uint64   `json:"bad"`
	Health   string   `json:"health,omitempty"`   // Healthy, Applied, or the name of a health item or parameter
	TimeoutS int      `json:"timeoutS,omitempty"` // of a test, in seconds
	SettleS  int      `json:"settleS,omitempty"`
}

// The defaults of a request, and its bounds.
const (
	defaultTimeout  = 2 * time.Minute
	defaultSettle   = 10 * time.Second
	shortestTimeout = 10 * time.Second
	longestTimeout  = 30 * time.Minute
	maxNodes        = 20
	longestCheck    = 200 // bytes
)

// WithDefaults returns the request with defaults for missing fields.
func (r Request) WithDefaults() Request {
	if r.Canary == "" && len(r.Nodes) > 0 {
		r.Canary = r.Nodes[0]
	}
	if r.Health == "" {
		r.Health = Healthy
	}
	if r.TimeoutS == 0 {
		r.TimeoutS = int(defaultTimeout / time.Second)
	}
	if r.SettleS == 0 {
		r.SettleS = int(min(defaultSettle, r.timeout()/2) / time.Second)
	}
	return r
}

func (r Request) timeout() time.Duration { return time.Duration(r.TimeoutS) * time.Second }
func (r Request) settle() time.Duration  { return time.Duration(r.SettleS) * time.Second }

// Check returns all faults of a request with defaults. state returns the state of a node, "" for an unknown one, and
// why no config can be tested on it, "" if one can.
func (r Request) Check(newest uint64, state func(node string) (known bool, unfit string)) config.Faults {
	var fs config.Faults
	if n := len(r.Nodes); n == 0 || n > maxNodes {
		fs.Add([]string{"nodes"}, config.InvalidValue(fmt.Sprint(n)+" names"), fmt.Sprintf("must be 1 to %d nodes", maxNodes))
	}
	for _, name := range r.Nodes {
		known, unfit := state(name)
		switch {
		case !known:
			fs.Add([]string{"nodes", name}, "unknown node", "must be a node that has joined")
		case name == r.Canary && unfit != "":
			fs.Add([]string{"canary"}, fmt.Sprintf("%s can't test a config: %s", name, unfit),
				"must be connected, and take configs from here")
		}
	}
	if !slices.Contains(r.Nodes, r.Canary) {
		fs.Add([]string{"canary"}, config.Invalid(r.Canary), "must be one of the nodes")
	}
	if r.Bad > newest {
		fs.Add([]string{"bad"}, config.InvalidValue(fmt.Sprint(r.Bad)),
			fmt.Sprintf("must be a revision that the history shows, up to %d", newest))
	}
	if r.Good >= r.Bad {
		fs.Add([]string{"good"}, config.InvalidValue(fmt.Sprint(r.Good)), "must be older than the bad revision")
	}
	if len(r.Health) > longestCheck {
		fs.Add([]string{"health"}, config.InvalidValue(fmt.Sprintf("%d bytes", len(r.Health))),
			fmt.Sprintf("must be %s, %s or the name of a health item or parameter", Healthy, Applied))
	}
	if t := r.timeout(); t < shortestTimeout || t > longestTimeout {
		fs.Add([]string{"timeoutS"}, config.InvalidValue(fmt.Sprint(r.TimeoutS)),
			fmt.Sprintf("must be %v to %v", shortestTimeout, longestTimeout))
	}
	if r.SettleS < 0 || r.settle() >= r.timeout() {
		fs.Add([]string{"settleS"}, config.InvalidValue(fmt.Sprint(r.SettleS)), "must be shorter than the timeout of a test")
	}
	return fs
}

// New returns the search that a request asks for.
func (r Request) New(now time.Time, by string, candidates []Candidate, past map[string]Past) *Record {
	out := &Record{Node: r.Canary, Nodes: r.Nodes, Good: r.Good, Bad: r.Bad, Check: r.Health, By: by, Began: now.UTC(),
		Timeout: r.timeout(), Settle: r.settle(), Candidates: candidates, Past: past}
	out.Begin()
	return out
}
