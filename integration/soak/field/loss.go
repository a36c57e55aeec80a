package field

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"edgespan/integration/soak/model"
)

// wayOf is how apps name the way to, or from, an endpoint by a port.
func wayOf(endpoint string, port int) string { return fmt.Sprintf("%s:%d", endpoint, port) }

func parseWay(text string) (e model.Endpoint, port int, err error) {
	name, number, _ := strings.Cut(text, ":")
	if e, err = model.ParseEndpoint(name); err == nil {
		port, err = strconv.Atoi(number)
	}
	return e, port, err
}

// measureLoss adds to each node's series which part of what must be answered was not, since the last call. What is on
// its way at a look is lost in this one and found in the next.
func (r *run) measureLoss() {
	sent, lost := map[int]int{}, map[int]int{}
	for _, a := range r.appLines() {
		node := a.endpoint.Node
		for way, n := range a.sinceLook() {
			if to, port, err := parseWay(way); err == nil && r.referee.mustReach(a.endpoint, to, port) {
				sent[node] += n.sent
				lost[node] += n.sent - n.echoed
			}
		}
	}
	for node, n := range sent {
		if n > 0 {
			r.add(node, "loss", "%", false, 100*float64(max(0, lost[node]))/float64(n))
		}
	}
}

// sinceLook returns what an app has sent, and what was answered, since the last call.
func (a *appLine) sinceLook() map[string]beacons {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]beacons{}
	for way, n := range a.total {
		out[way] = beacons{n.sent - a.before[way].sent, n.echoed - a.before[way].echoed}
	}
	a.before = maps.Clone(a.total)
	return out
}

// line returns the line to an app, or to the server outside; nil if there is none.
func (r *run) line(e model.Endpoint) *appLine {
	if e == model.Outside && r.lab != nil {
		return r.lab.outside
	}
	return r.app(e)
}

// deaf says what a judge has not seen of beacons that were answered, and so went past it, or "".
func (r *run) deaf(from, to model.Endpoint, port int) string {
	a := r.line(to)
	heard := false
	if a != nil {
		a.mu.Lock()
		heard = a.heard[wayOf(from.String(), port)] > 0
		a.mu.Unlock()
	}
	switch {
	case !heard:
		return fmt.Sprintf("app %v has not told of beacons of app %v to port %d, which it answered", to, from, port)
	case to == model.Outside && !r.referee.hasLeft(from):
		return fmt.Sprintf("the wire has not seen beacons of app %v, which were answered outside", from)
	}
	return ""
}
