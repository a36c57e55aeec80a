package bisect

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
)

// Candidate is a revision that changes the config of the canary.
type Candidate struct {
	Revision uint64    `json:"revision"`
	Author   string    `json:"author,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Message  string    `json:"message,omitempty"`
	As       string    `json:"as"`                // the canary's name as of the revision
	MD5      string    `json:"md5"`               // of the canary's config
	Keys     []string  `json:"keys,omitempty"`    // that it changes, the first few
	More     int       `json:"more,omitempty"`    // changed keys that are not listed
	Others   []string  `json:"others,omitempty"`  // of the other nodes, those whose config it changes
	Invalid  string    `json:"invalid,omitempty"` // why no node takes it
	Unfit    string    `json:"unfit,omitempty"`   // why it can't be tested
}

// Bounds on one search.
const (
	MaxCandidates = 1000
	MaxRecord     = 384 << 10        // bytes of a new record; with all verdicts it fits into a transaction of the store
	maxUnsure     = 10               // tests that show nothing
	maxLosses     = 10               // losses of the canary's connection in one test: each is stored
	maxReason     = 200              // bytes of a reason
	offlineLimit  = 10 * time.Minute // without the canary
)

// The phases of a search.
const (
	Testing = "testing"
	Undoing = "undoing" // the search has ended; the canary is not back yet
	Ended   = "ended"
)

// The results of a search.
const (
	Found        = "found"
	Inconclusive = "inconclusive" // the first bad revision is one of several that can't be tested
	Failed       = "failed"
	Aborted      = "aborted"
)

// Past is how the canary fared with a config before the search.
type Past struct {
	Reason fleet.Reason `json:"reason"`
	Why    string       `json:"why"`
	At     time.Time    `json:"at"`
}

// Record is one search, in its stored form.
type Record struct {
	Node       string          `json:"node"`
	Nodes      []string        `json:"nodes"`
	Good       uint64          `json:"good"`
	Bad        uint64          `json:"bad"`
	Check      string          `json:"check"`
	By         string          `json:"by"`
	Began      time.Time       `json:"began"`
	Ended      time.Time       `json:"ended,omitzero"`
	Timeout    time.Duration   `json:"timeout"` // of a test, and after which the node undoes what it tests
	Settle     time.Duration   `json:"settle"`  // how long the canary must be settled before it is judged
	Candidates []Candidate     `json:"candidates"`
	Past       map[string]Past `json:"past,omitempty"` // by MD5
	Phase      string          `json:"phase"`
	Result     string          `json:"result,omitempty"`
	Why        string          `json:"why,omitempty"`
	Has        string          `json:"has,omitempty"` // what the canary has at the end

	Since    time.Time              `json:"since,omitzero"` // when a replica first looked at the canary, by its clock
	Test     *Test                  `json:"test,omitempty"`
	Before   *Snapshot              `json:"before,omitempty"`   // the canary before the search
	Baseline *Snapshot              `json:"baseline,omitempty"` // with the good revision
	Verified int                    `json:"verified,omitempty"` // how many of the two ends are as stated
	Rejects  bool                   `json:"rejects,omitempty"`  // the bad end is one that nodes reject
	Lo       int                    `json:"lo"`                 // the last candidate that is good
	Hi       int                    `json:"hi"`                 // the first one that is bad
	Unsure   []int                  `json:"unsure,omitempty"`   // candidates that can't be tested
	Known    map[string]knownResult `json:"known,omitempty"`    // by MD5
	Pushes   int                    `json:"pushes"`
	Steps    []Step                 `json:"steps,omitempty"`

	other config.Unknown
}

// Test is the test that is under way.
type Test struct {
	Index   int       `json:"index"`
	Since   time.Time `json:"since"`
	Settled time.Time `json:"-"`                // since when the canary has settled
	On      string    `json:"on,omitempty"`     // the process that had the canary's stream last
	Taken   bool      `json:"taken,omitempty"`  // the canary has the config
	Lost    bool      `json:"lost,omitempty"`   // it went offline with it
	Losses  int       `json:"losses,omitempty"` // how often it went offline or to another process
	Away    bool      `json:"away,omitempty"`   // it is offline, and does not have it
	Pushed  bool      `json:"pushed,omitempty"` // it had another config when the test began
}

// Step is one verdict.
type Step struct {
	At       time.Time `json:"at"`
	Revision uint64    `json:"revision"`
	Verdict  Verdict   `json:"verdict"`
	By       string    `json:"by"` // how it was judged
	Why      string    `json:"why"`
}

// knownResult is the verdict on a config.
type knownResult struct {
	Verdict  Verdict `json:"verdict"`
	Revision uint64  `json:"revision"`
}

// How a candidate is judged.
const (
	byPush       = "push"       // it was pushed to the canary
	byRunning    = "report"     // the canary has it
	bySimulation = "simulation" // its config was computed and validated
	byHistory    = "history"    // the canary rejected or undid it before
	bySame       = "same config"
)

// written is Record without its methods for JSON.
type written Record

// UnmarshalJSON keeps unknown fields. A record that names a candidate which it does not have is an error.
func (r *Record) UnmarshalJSON(text []byte) (err error) {
	if r.other, err = config.ReadRecord(text, (*written)(r)); err != nil {
		return err
	}
	named := []int{r.Lo, r.Hi}
	if r.Test != nil {
		named = append(named, r.Test.Index)
	}
	for _, i := range append(named, r.Unsure...) {
		if i < 0 || i >= max(len(r.Candidates), 1) || r.Test != nil && len(r.Candidates) == 0 || r.Lo > r.Hi {
			return fmt.Errorf("candidate %d: must be one of the %d candidates of the search", i, len(r.Candidates))
		}
	}
	if r.Result == Found && len(r.Candidates) == 0 {
		return errors.New("a search that has found a revision has no candidates")
	}
	return nil
}

// MarshalJSON writes the unknown fields too.
func (r Record) MarshalJSON() ([]byte, error) { return config.WriteRecord(written(r), r.other) }

// Begin begins a search between the first and the last of its candidates.
func (r *Record) Begin() { r.Phase, r.Lo, r.Hi = Testing, 0, len(r.Candidates)-1 }

// Pin returns the candidate whose config the canary shall have now, if any.
func (r *Record) Pin() (Candidate, bool) {
	if r.Phase != Testing || r.Test == nil {
		return Candidate{}, false
	}
	return r.Candidates[r.Test.Index], true
}

// CandidateOf returns the candidate of a revision.
func (r *Record) CandidateOf(revision uint64) (Candidate, bool) {
	for _, c := range r.Candidates {
		if c.Revision == revision {
			return c, true
		}
	}
	return Candidate{}, false
}

// First returns the first bad candidate, once it is found.
func (r *Record) First() (Candidate, bool) {
	if r.Result != Found {
		return Candidate{}, false
	}
	return r.Candidates[r.Hi], true
}

// Suspects returns the revisions one of which is the first bad one.
func (r *Record) Suspects() []uint64 {
	var out []uint64
	for _, c := range r.Candidates[r.Lo+1 : r.Hi+1] {
		out = append(out, c.Revision)
	}
	return out
}

// MaxPushes returns how many pushes the search takes at most: both ends, one for each halving, and for each candidate
// that can't be tested itself and another halving.
func (r *Record) MaxPushes() int {
	return 2 + bits.Len(uint(max(len(r.Candidates)-2, 0))) + 2*len(r.Unsure)
}

// Abort ends the search, and reports whether it had not ended.
func (r *Record) Abort(by string) bool {
	if r.Phase != Testing {
		return false
	}
	r.end(Aborted, "by "+by)
	return true
}

// end ends the tests: the canary goes back.
func (r *Record) end(result, why string) {
	r.Phase, r.Result, r.Why, r.Test = Undoing, result, why, nil
}

// isUnsure reports whether a candidate can't be tested.
func (r *Record) isUnsure(index int) bool { return slices.Contains(r.Unsure, index) }
