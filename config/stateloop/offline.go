package stateloop

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
)

// ReadDesired reads the desired parameters of a node:
//
//	{"generation": 7, "parameters": [{"id": "a", "target": "present", "dependencies": ["b"]}]}
//
// It reports all faults at once: those of the document, duplicate IDs, and those of the graph. Dependencies are
// optional, and null means an empty list.
func ReadDesired(text []byte) (Config, config.Faults) {
	var r reader
	var out Config
	first := map[string]int{}
	out.Generation = r.document(text, []string{"id", "target", "dependencies"}, func(path []string, o config.Object) {
		w := DesiredParameter{ID: r.id(path, o), Target: Target(r.text(path, o, "target", required))}
		if w.ID != "" {
			at, _ := strconv.Atoi(path[1])
			if before, twice := first[w.ID]; twice {
				r.faults.Add(config.Sub(path, "id"), fmt.Sprintf("duplicate value %s, also at parameters.%d", quote(w.ID), before),
					"must be unique")
			} else {
				first[w.ID] = at
			}
		}
		if _, is := o["target"].(string); is && w.Target != ToBePresent && w.Target != ToBeAbsent {
			r.faults.Add(config.Sub(path, "target"), config.InvalidValue(quote(string(w.Target))), "must be present or absent")
		}
		w.Dependencies = r.texts(path, o, "dependencies")
		out.Parameters = append(out.Parameters, w)
	})
	// A parameter without an ID is already a fault, and no other can depend on it.
	named := slices.DeleteFunc(slices.Clone(out.Parameters), func(w DesiredParameter) bool { return w.ID == "" })
	r.faults = append(r.faults, GraphOf(named).Faults(func(id string) []string {
		return []string{"parameters", strconv.Itoa(first[id]), "dependencies"}
	})...)
	if r.faults != nil {
		r.sort()
		return Config{}, r.faults
	}
	return out, nil
}

// ReadReported reads a node's report:
//
//	{"generation": 7, "parameters": [{"id": "a", "state": "CreatingFailed", "timestamp": "2026-05-01T12:00:00Z",
//	  "message": "why"}]}
//
// It accepts the states that nodes report by the contract and reports all faults at once. timestamp and message are
// optional. An ID may occur twice; Derive decides which report counts.
func ReadReported(text []byte) (EdgePeerConfigurationState, config.Faults) {
	var r reader
	var out EdgePeerConfigurationState
	out.Generation = r.document(text, []string{"id", "state", "timestamp", "message"},
		func(path []string, o config.Object) {
			p := Reported{ID: r.id(path, o), State: State(r.text(path, o, "state", required)),
				Message: r.text(path, o, "message", optional)}
			if _, is := o["state"].(string); is && !slices.Contains(spoken, p.State) {
				r.faults.Add(config.Sub(path, "state"), config.InvalidValue(quote(string(p.State)))+
					", which is not a reported state",
					allowedStates())
			}
			at := r.text(path, o, "timestamp", optional)
			if _, is := o["timestamp"].(string); is {
				var ok bool
				if p.Since, ok = moment(at); !ok {
					r.faults.Add(config.Sub(path, "timestamp"), config.InvalidValue(quote(at)), "must be a time of RFC 3339, such as "+
						time.UnixMilli(0).UTC().Format(time.RFC3339))
				}
			}
			out.Parameters = append(out.Parameters, p)
		})
	if r.faults != nil {
		r.sort()
		return EdgePeerConfigurationState{}, r.faults
	}
	for i := range out.Parameters {
		out.Parameters[i].Generation = out.Generation
	}
	return out, nil
}

// written matches the RFC 3339 form of a time. The package time accepts more: an hour of one digit, a comma before the
// fraction, an offset of 24 hours.
var written = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):\d\d)$`)

// moment parses a time of RFC 3339, with upper or lower case letters. It refuses leap seconds.
func moment(text string) (time.Time, bool) {
	text = strings.ToUpper(text)
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && written.MatchString(text)
}

func allowedStates() string {
	words := make([]string, len(spoken))
	for i, s := range spoken {
		words[i] = string(s)
	}
	return config.OneOf(words)
}

// reader reads one document and collects its faults.
type reader struct{ faults config.Faults }

const (
	required = true
	optional = false
)

// document reads the common part of both documents and calls one for each parameter.
func (r *reader) document(text []byte, keys []string, one func(path []string, o config.Object)) config.Generation {
	o, faults := config.ParseObject(text)
	if faults != nil {
		r.faults = faults
		return config.Generation{}
	}
	r.known(nil, o, []string{"generation", "parameters"})
	g := r.generation(o)
	list, is := o["parameters"].([]any)
	if v, has := o["parameters"]; !has {
		r.faults.Add([]string{"parameters"}, config.Required, "must be a list of objects")
	} else if v != nil && !is {
		r.faults.Add([]string{"parameters"}, config.InvalidType(config.KindOf(v)), "must be a list of objects")
	}
	for i, v := range list {
		path := []string{"parameters", strconv.Itoa(i)}
		if p, is := v.(config.Object); is {
			r.known(path, p, keys)
			one(path, p)
		} else {
			r.faults.Add(path, config.InvalidType(config.KindOf(v)), "must be an object")
		}
	}
	return g
}

// generation reads the number that links a report to a config. In a file it is a plain number without an authority.
func (r *reader) generation(o config.Object) config.Generation {
	const allowed = "a whole number from 0 on"
	v, has := o["generation"]
	n, is := v.(int64)
	switch {
	case !has:
		r.faults.Add([]string{"generation"}, config.Required, config.MustBe(allowed))
	case !is:
		r.faults.Add([]string{"generation"}, config.InvalidType(config.KindOf(v)), config.MustBe(allowed))
	case n < 0:
		r.faults.Add([]string{"generation"}, fmt.Sprintf("invalid value %d", n), config.MustBe(allowed))
	}
	return config.Generation{Counter: uint64(max(n, 0))}
}

func (r *reader) known(path []string, o config.Object, keys []string) {
	for _, k := range config.Keys(o) {
		if !slices.Contains(keys, k) {
			r.faults.Add(config.Sub(path, k), config.UnknownField, config.OneOf(keys))
		}
	}
}

func (r *reader) id(path []string, o config.Object) string {
	id := r.text(path, o, "id", required)
	if s, is := o["id"].(string); is && s == "" {
		r.faults.Add(config.Sub(path, "id"), config.Invalid(""), "must be a string")
	}
	return id
}

func (r *reader) text(path []string, o config.Object, key string, must bool) string {
	v, has := o[key]
	s, is := v.(string)
	switch {
	case has && !is && (v != nil || must):
		r.faults.Add(config.Sub(path, key), config.InvalidType(config.KindOf(v)), "must be a string")
	case !has && must:
		r.faults.Add(config.Sub(path, key), config.Required, "must be a string")
	}
	return s
}

func (r *reader) texts(path []string, o config.Object, key string) []string {
	v := o[key]
	list, is := v.([]any)
	if v != nil && !is {
		r.faults.Add(config.Sub(path, key), config.InvalidType(config.KindOf(v)), "must be a list of ids")
	}
	var out []string
	for i, v := range list {
		if s, is := v.(string); is {
			out = append(out, s)
		} else {
			r.faults.Add(config.Sub(path, key, strconv.Itoa(i)), config.InvalidType(config.KindOf(v)), "must be an id")
		}
	}
	return out
}

// sort sorts the faults in the order of the document: list elements by their number.
func (r *reader) sort() {
	slices.SortStableFunc(r.faults, func(a, b config.Fault) int {
		return slices.CompareFunc(a.Path, b.Path, func(a, b string) int {
			x, err := strconv.Atoi(a)
			y, err2 := strconv.Atoi(b)
			if err == nil && err2 == nil && x != y {
				return x - y
			}
			return strings.Compare(a, b)
		})
	})
}

// StateDocument is a derived state in its printed form.
type StateDocument struct {
	Ready      bool        `json:"ready"`
	Parameters []Statement `json:"parameters"` // by ID
	Ignored    []Statement `json:"ignored"`    // by ID; their state is Ignored
}

// Statement is one parameter of a Document.
type Statement struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	Review Review `json:"review"`
	Reason string `json:"reason"`
}

// Document returns the printed form of the state; its lists are never null.
func (d PeerConfigurationState) Document() StateDocument {
	out := StateDocument{Ready: d.Ready, Parameters: []Statement{}, Ignored: []Statement{}}
	for _, p := range d.Parameters {
		out.Parameters = append(out.Parameters, Statement{p.ID, p.State, p.Review, p.Reason})
	}
	for _, i := range d.Ignored {
		out.Ignored = append(out.Ignored, Statement{i.ID, Ignored, i.Review, i.Reason})
	}
	return out
}
