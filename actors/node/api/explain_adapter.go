package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
)

// adapterView is everything known of one adapter of an app.
type adapterView struct {
	app, id    string // id is <app>/<index>
	index      int
	config     appnet.AppNetworkConfig
	desired    netinst.AdapterSpec
	configured bool // the config has it
	status     appnet.AdapterStatus
	known      bool
	want       uint64 // TargetVersion of the app
}

func (n *Reader) adapterView(app string, index int) adapterView {
	v := adapterView{app: app, id: AdapterID(app, index), index: index}
	v.config, _ = n.Topics.AppConfig.Get("", app)
	v.desired, v.configured = v.config.Adapters[index]
	s, _ := n.Topics.AppStatus.Get("", app)
	v.want = s.TargetVersion
	for _, a := range s.Adapters {
		if a.Index == index {
			v.status, v.known = a, true
		}
	}
	return v
}

func (n *Reader) explainAdapter(app string, index int) (nodeapi.Explanation, error) {
	v := n.adapterView(app, index)
	x := nodeapi.Explanation{Object: "adapter/" + v.id, Name: v.config.DisplayName, Causes: []nodeapi.Cause{}}
	if !v.configured && !v.known {
		known := "the app is not in the config"
		if len(v.config.Adapters) > 0 {
			s, _ := n.Topics.AppStatus.Get("", app)
			known = fmt.Sprintf("the app has the adapters %s", strings.Trim(fmt.Sprint(indices(v.config, s)), "[]"))
		}
		return x, fmt.Errorf("explain adapter %s: %w: %s", v.id, rest.ErrNotFound, known)
	}
	crash := n.appCrashed(app)
	activated := v.status.Activated == v.config.Activate && v.status.TargetVersion == v.want && v.known
	x.Ready = crash == "" && v.configured && activated && v.status.NetworkInstance == v.desired.NetworkInstance
	switch {
	case x.Ready && v.config.Activate:
		x.Summary = fmt.Sprintf("ready: %s on network instance %s%s as %s", v.status.Link.IP,
			n.networkName(v.desired.NetworkInstance), vlanText(v.desired), v.status.Link.HostIfName)
	case x.Ready:
		x.Summary = "ready: inactive, as the app's activate is false"
	case !v.configured:
		x.Summary = "not ready: not in the config, being removed"
	case crash != "":
		x.Summary, x.Causes = "not ready: its app network is down", []nodeapi.Cause{{Object: "app/" + app, Text: crash}}
	default:
		x.Summary = "not ready: not in its desired state on network instance " + n.networkName(v.desired.NetworkInstance)
	}
	x.Warning = v.status.Link.DroppedText()
	if v.desired.Observe {
		x.Warning = strings.TrimPrefix(x.Warning+"; observe: its access rules deny nothing, and count what they would deny "+
			"('edgespan acl shadow')", "; ")
	}
	if v.configured {
		x.Hits, x.HitsRead = n.lastHits(v.config.UUID, index, v.desired)
	}
	if !x.Ready && crash == "" {
		x.Causes = append(x.Causes, n.adapterCauses(v)...)
	}
	return x, nil
}

// vlanText names the VLANs of an adapter that has any.
func vlanText(u netinst.AdapterSpec) string {
	s := ""
	if u.VLAN != 0 {
		s = fmt.Sprintf(" in VLAN %d", u.VLAN)
	}
	if len(u.Trunk) > 0 {
		s += " with tags of " + numbers(u.Trunk)
	}
	return s
}

func (n *Reader) networkName(ni uuid.UUID) string {
	if c, ok := n.Topics.NetworkConfig.Get("", ni.String()); ok && c.DisplayName != "" {
		return c.DisplayName
	}
	return ni.String()
}

// adapterCauses returns the causes in the order of dependency, the adapter itself last.
func (n *Reader) adapterCauses(v adapterView) []nodeapi.Cause {
	t := n.Topics
	key := netinst.AdapterKey{AppUUID: uuid.Nil, Index: v.index}
	key.AppUUID, _ = uuid.Parse(v.app)
	var out []nodeapi.Cause
	for _, e := range t.AdapterStatus.All() { // networks that still have it
		if e.Key == key.String() && (!v.configured || e.Scope != v.desired.NetworkInstance.String()) {
			out = append(out, nodeapi.Cause{
				Object: "ni/" + e.Scope, Text: "has not released it yet" + n.askedSince(e.Scope, key),
				Causes: n.opCauses(e.Scope, key.String()),
			})
		}
	}
	if !v.configured {
		return out
	}
	id := v.desired.NetworkInstance.String()
	object := "ni/" + id
	if _, in := t.NetworkConfig.Get("", id); !in {
		return append(out, nodeapi.Cause{Object: object, Text: "is not in the config: apply a config with networkInstances." +
			id})
	}
	owned := n.opCauses(id, key.String())
	tried := slices.ContainsFunc(owned, func(c nodeapi.Cause) bool { return c.Op != "" })
	if r := n.networkReady(id); !r.Ready && !tried {
		if x, err := n.explainNetwork(id); err == nil {
			out = append(out, nodeapi.Cause{Object: object, Text: x.Summary, Causes: x.Causes})
		}
	}
	out = append(out, owned...)
	asked, published := t.AdapterConfig.Get(id, key.String())
	s, answered := t.AdapterStatus.Get(id, key.String())
	switch {
	case !published:
		out = append(out, nodeapi.Cause{Object: "app/" + v.app, Text: "has not requested it from the network yet"})
	case !answered:
		out = append(out, nodeapi.Cause{Object: object,
			Text: fmt.Sprintf("has not answered version %d%s", asked.TargetVersion, n.askedSince(id, key))})
	case s.TargetVersion != asked.TargetVersion:
		out = append(out, nodeapi.Cause{Object: object, Text: fmt.Sprintf("has answered version %d, not %d%s",
			s.TargetVersion, asked.TargetVersion, n.askedSince(id, key))})
	case s.Error != "" && len(out) == 0:
		out = append(out, nodeapi.Cause{Object: object, Text: s.Error})
	}
	return out
}

// askedSince reports since when a network has not answered.
func (n *Reader) askedSince(scope string, key netinst.AdapterKey) string {
	at, ok := n.Asked(scope + "/" + key.String())
	if !ok {
		return ""
	}
	return ", asked at " + at.UTC().Format("15:04:05.000Z")
}
