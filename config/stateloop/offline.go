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
//	{"generation": 7, "parameters": [{"id": "a", "target": "present", "dependencies": ["b"]},
//	  {"id": "b", "target": "present"}]}
//
// It reports all faults at once: those of the document, duplicate IDs, and those of the graph. Dependencies are
// optional, and null means an empty list.
func ReadDesired(text []byte) (Config, config.Faults) {
	var r reader
	var out Config
	first := map[string]int{}
	out.Generation = r.readDocument(text, []string{"id", "target", "dependencies"}, func(path []string, o config.Object) {
		p := DesiredParameter{ID: r.readID(path, o), Target: Target(r.readText(path, o, "target", required))}
		if p.ID != "" {
			at, _ := strconv.Atoi(path[1])
			if before, twice := first[p.ID]; twice {
				r.faults.Add(config.Below(path, "id"), fmt.Sprintf("duplicate value %s, also at parameters.%d", quote(p.ID),
					before),
					"must be unique")
			} else {
				first[p.ID] = at
			}
		}
		if _, ok := o["target"].(string); ok && p.Target != ToBePresent && p.Target != ToBeAbsent {
			r.faults.Add(config.Below(path, "target"), config.InvalidValue(quote(string(p.Target))), "must be present or absent")
		}
		p.Dependencies = r.readTexts(path, o, "dependencies")
		out.Parameters = append(out.Parameters, p)
	})
	// A parameter without an ID is already a fault, and no other can depend on it.
	named := slices.DeleteFunc(slices.Clone(out.Parameters), func(p DesiredParameter) bool { return p.ID == "" })
	r.faults = append(r.faults, NewGraph(named).Faults(func(id string) []string {
		return []string{"parameters", strconv.Itoa(first[id]), "dependencies"}
	})...)
	if r.faults != nil {
		r.sortFaults()
		return Config{}, r.faults
	}
	return out, nil
}

// ReadReported reads a node's report:
//
//	{"generation": 7, "parameters": [{"id": "a", "state": "CreatingFailed", "timestamp": "2026-05-01T12:00:00Z",
//	  "message": "why"}]}
//
// It accepts the states of the seed's tables (reportableStates) and reports all faults at once. timestamp and message
// are optional. An ID may occur twice; Derive decides which report counts.
func ReadReported(text []byte) (EdgePeerConfigurationState, config.Faults) {
	var r reader
	var out EdgePeerConfigurationState
	out.Generation = r.readDocument(text, []string{"id", "state", "timestamp", "message"},
		func(path []string, o config.Object) {
			p := Reported{ID: r.readID(path, o), State: State(r.readText(path, o, "state", required)),
				Message: r.readText(path, o, "message", optional)}
			if _, ok := o["state"].(string); ok && !slices.Contains(reportableStates, p.State) {
				r.faults.Add(config.Below(path, "state"), config.InvalidValue(quote(string(p.State)))+
					", which is not a reported state",
					allowedStates())
			}
			at := r.readText(path, o, "timestamp", optional)
			if _, ok := o["timestamp"].(string); ok {
				var ok bool
				if p.Since, ok = parseTime(at); !ok {
					r.faults.Add(config.Below(path, "timestamp"), config.InvalidValue(quote(at)),
						"must be a time of RFC 3339, such as "+
							time.UnixMilli(0).UTC().Format(time.RFC3339))
				}
			}
			out.Parameters = append(out.Parameters, p)
		})
	if r.faults != nil {
		r.sortFaults()
		return EdgePeerConfigurationState{}, r.faults
	}
	for i := range out.Parameters {
		out.Parameters[i].Generation = out.Generation
	}
	return out, nil
}

// strictTime matches the end of an RFC 3339 time. The package time accepts more: an hour of one digit, a comma before
// the fraction, an offset of 24 hours.
var strictTime = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):\d\d)$`)

// parseTime parses a time of RFC 3339, with upper or lower case letters. It refuses leap seconds.
func parseTime(text string) (time.Time, bool) {
	text = strings.ToUpper(text)
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && strictTime.MatchString(text)
}

func allowedStates() string {
	names := make([]string, len(reportableStates))
	for i, s := range reportableStates {
		names[i] = string(s)
	}
	return config.OneOf(names)
}

// reader reads one document and collects its faults.
type reader struct{ faults config.Faults }

const (
	required = true
	optional = false
)

// readDocument reads the common part of both documents and calls readParameter for each element of "parameters".
func (r *reader) readDocument(text []byte, keys []string,
	readParameter func(path []string, o config.Object)) config.Generation {
	o, faults := config.ParseObject(text)
	if faults != nil {
		r.faults = faults
		return config.Generation{}
	}
	r.checkKeys(nil, o, []string{"generation", "parameters"})
	g := r.readGeneration(o)
	list, ok := o["parameters"].([]any)
	if v, has := o["parameters"]; !has {
		r.faults.Add([]string{"parameters"}, config.Required, "must be a list of objects")
	} else if v != nil && !ok {
		r.faults.Add([]string{"parameters"}, config.InvalidType(config.KindOf(v)), "must be a list of objects")
	}
	for i, v := range list {
		path := []string{"parameters", strconv.Itoa(i)}
		if p, ok := v.(config.Object); ok {
			r.checkKeys(path, p, keys)
			readParameter(path, p)
		} else {
			r.faults.Add(path, config.InvalidType(config.KindOf(v)), "must be an object")
		}
	}
	return g
}

// readGeneration reads the number that links a report to a config. In a file it is a plain number, without
// the id of a store.
func (r *reader) readGeneration(o config.Object) config.Generation {
	const allowed = "a whole number from 0 on"
	v, has := o["generation"]
	n, ok := v.(int64)
	switch {
	case !has:
		r.faults.Add([]string{"generation"}, config.Required, config.MustBe(allowed))
	case !ok:
		r.faults.Add([]string{"generation"}, config.InvalidType(config.KindOf(v)), config.MustBe(allowed))
	case n < 0:
		r.faults.Add([]string{"generation"}, fmt.Sprintf("invalid value %d", n), config.MustBe(allowed))
	}
	return config.Generation{Counter: uint64(max(n, 0))}
}

func (r *reader) checkKeys(path []string, o config.Object, keys []string) {
	for _, k := range config.Keys(o) {
		if !slices.Contains(keys, k) {
			r.faults.Add(config.Below(path, k), config.UnknownField, config.OneOf(keys))
		}
	}
}

func (r *reader) readID(path []string, o config.Object) string {
	id := r.readText(path, o, "id", required)
	if s, ok := o["id"].(string); ok && s == "" {
		r.faults.Add(config.Below(path, "id"), config.Invalid(""), "must be a string")
	}
	return id
}

func (r *reader) readText(path []string, o config.Object, key string, must bool) string {
	v, has := o[key]
	s, ok := v.(string)
	switch {
	case has && !ok && (v != nil || must):
		r.faults.Add(config.Below(path, key), config.InvalidType(config.KindOf(v)), "must be a string")
	case !has && must:
		r.faults.Add(config.Below(path, key), config.Required, "must be a string")
	}
	return s
}

func (r *reader) readTexts(path []string, o config.Object, key string) []string {
	v := o[key]
	list, ok := v.([]any)
	if v != nil && !ok {
		r.faults.Add(config.Below(path, key), config.InvalidType(config.KindOf(v)), "must be a list of ids")
	}
	var out []string
	for i, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		} else {
			r.faults.Add(config.Below(path, key, strconv.Itoa(i)), config.InvalidType(config.KindOf(v)), "must be an id")
		}
	}
	return out
}

// sortFaults sorts the faults in the order of the document: list elements by their number.
func (r *reader) sortFaults() {
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

// StateDocument is a derived state as `edgespan layers state derive` prints it.
type StateDocument struct {
	Ready      bool        `json:"ready"`
	Parameters []Statement `json:"parameters"` // by ID
	Ignored    []Statement `json:"ignored"`    // by ID; their state is Ignored
}

// Statement is one parameter of a StateDocument.
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
