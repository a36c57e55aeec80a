package hieratree

import (
	"maps"
	"slices"

	"edgespan/config/configdb"
)

// Comparison is what one resource is on a node and in ConfigDB.
type Comparison struct {
	Name string
	// Lines are what would make the node's files what ConfigDB has, a line each, without secrets; none: they are the same.
	Lines []string
	// Hidden says that ConfigDB shows some of its secrets to nobody of this role: those were not compared.
	Hidden bool
}

// Mask stands in the place of a secret (docs/adr/0022).
const mask = `{"$masked":true}`

// Masked says whether a document has a secret that was not shown.
func Masked(doc configdb.JSON) bool {
	if doc.String() == mask {
		return true
	}
	if o, err := configdb.ObjectOf(doc); err == nil {
		return slices.ContainsFunc(o.Members(), func(m configdb.Member) bool { return Masked(m.Value) })
	}
	return slices.ContainsFunc(doc.Elements(), Masked)
}

// Compare compares resources of files with those of ConfigDB. What neither has, or only as one without keys, is the
// same. The secrets are by the names of resources.
func Compare(local, remote []Resource, secrets map[string][]configdb.Secret) []Comparison {
	have, want := byName(local), byName(remote)
	names := slices.Sorted(maps.Keys(have))
	for name := range want {
		if _, is := have[name]; !is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := make([]Comparison, len(names))
	for i, name := range names {
		a, b := orEmpty(have[name]), orEmpty(want[name])
		out[i] = Comparison{Name: name, Hidden: Masked(b)}
		out[i].Lines = lines(a, b, secrets[name])
	}
	return out
}

func byName(rs []Resource) map[string]configdb.JSON {
	out := map[string]configdb.JSON{}
	for _, r := range rs {
		out[r.Name] = r.Values
	}
	return out
}

func orEmpty(v configdb.JSON) configdb.JSON {
	if v == nil {
		return configdb.JSON("{}")
	}
	return v
}

// lines are the differences. A secret that differs is named by its place and not shown.
func lines(a, b configdb.JSON, secrets []configdb.Secret) []string {
	maskedA, maskedB := configdb.Mask(a, secrets), configdb.Mask(b, secrets)
	var out []string
	for _, d := range configdb.Diff(maskedA, maskedB) {
		if d.New.String() != mask || d.Old == nil { // else ConfigDB has something there that it does not show
			out = append(out, d.String())
		}
	}
	if Masked(b) {
		return out
	}
	// Secrets make no difference between the masked documents, and one between the others.
	for _, d := range configdb.Diff(a, b) {
		for n := range len(d.Path) + 1 {
			if at, err := configdb.At(maskedB, d.Path[:n]); err != nil || at.String() != mask {
				continue
			}
			secret := configdb.Difference{Op: configdb.OpReplace, Path: d.Path[:n], Old: configdb.JSON(mask),
				New: configdb.JSON(mask)}
			if line := secret.String(); !slices.Contains(out, line) {
				out = append(out, line)
			}
			break
		}
	}
	if len(out) == 0 && a.String() != b.String() {
		out = append(out, "a secret differs")
	}
	return out
}
