package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// named is a network by the names that people use.
type named struct {
	id, display string
	number      int
}

// networks returns the networks that are on the node or in its config.
func (c *Console) networks() []named {
	all := map[string]named{}
	for _, e := range c.Topics.NetworkConfig.All() {
		number, _ := c.Topics.Numbers.Get("", e.Key)
		all[e.Key] = named{e.Key, e.Value.DisplayName, number}
	}
	for _, e := range c.Topics.NetworkStatus.All() {
		all[e.Key] = named{e.Key, e.Value.DisplayName, e.Value.Number}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b named) int { return cmp.Compare(a.id, b.id) })
}

// network finds a network by its UUID, its display name, or the beginning of its UUID.
func (c *Console) network(name string) (id string, number int, err error) {
	var found []named
	for _, n := range c.networks() {
		if n.id == name || n.display == name {
			found = append(found, n)
		}
	}
	if len(found) == 0 && len(name) >= 4 {
		for _, n := range c.networks() {
			if strings.HasPrefix(n.id, name) {
				found = append(found, n)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", 0, shellproto.Failf(shellproto.ExitNotFound, "%.60q: no such network", name)
	case 1:
		return found[0].id, found[0].number, nil
	}
	return "", 0, shellproto.Failf(shellproto.ExitUsage, "%.60q: several networks: must be a UUID, such as %s", name,
		found[0].id)
}

// actor finds an actor by its path, with or without "router/", or that of a network or an app by its display name.
func (c *Console) actor(name string) (string, error) {
	for _, id := range []string{name, "router/" + name, "router/" + c.byName(name)} {
		if _, there := c.Census.Activity(id); there {
			return id, nil
		}
	}
	return "", shellproto.Failf(shellproto.ExitNotFound, "%.80q: no such actor: 'tree' lists them", name)
}

// byName returns the path below the router for "ni/DISPLAY NAME" and "app/DISPLAY NAME", also with what is below them.
func (c *Console) byName(name string) string {
	kind, rest, _ := strings.Cut(name, "/")
	display, below, deep := strings.Cut(rest, "/")
	id := ""
	switch kind {
	case "ni":
		for _, n := range c.networks() {
			if n.display == display || len(display) >= 4 && strings.HasPrefix(n.id, display) {
				id = n.id
			}
		}
	case "app":
		for _, e := range c.Topics.AppConfig.All() {
			if e.Value.DisplayName == display {
				id = e.Key
			}
		}
	}
	if deep {
		return kind + "/" + id + "/" + below
	}
	return kind + "/" + id
}

func (c *Console) actors() []string {
	var ids []string
	for _, a := range c.Census.List() {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}

// names answers with the live names of one kind.
func (c *Console) names(kind, of string, emit shellproto.Emit) error {
	var all []string
	switch kind {
	case shellproto.NamesActor:
		for _, id := range c.actors() {
			all = append(all, strings.TrimPrefix(id, "router/"))
		}
	case shellproto.NamesNetwork:
		for _, n := range c.networks() {
			all = append(all, cmp.Or(n.display, n.id))
		}
	case shellproto.NamesTopic:
		all = sortedKeys(c.topics())
	case shellproto.NamesKey:
		if t, ok := c.topics()[of]; ok {
			all = t.keys()
		}
	case shellproto.NamesSubsystem:
		for _, l := range c.Levels.List() {
			all = append(all, l.Subsystem)
		}
	case shellproto.NamesLevel:
		all = append(loglevel.Words(), loglevel.Reset)
	case shellproto.NamesFault:
		if c.Faults != nil {
			all = append(sortedKeys(c.Faults.Kinds()), "clear", "list")
		}
	default:
		return shellproto.Failf(shellproto.ExitUsage, "%.40q: no kind of names", kind)
	}
	return emit(all, 0)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
