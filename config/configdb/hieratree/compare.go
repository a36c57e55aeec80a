package hieratree

import (
	"maps"
	"slices"

	"edgespan/config/configdb"
)

// Comparison is the comparison of one resource on a node with ConfigDB.
type Comparison struct {
	Name string
	// Lines are the changes that turn the node's files into ConfigDB's content, without secrets; none: they are equal.
	Lines []string
	// Hidden reports that ConfigDB masks secrets for this role; those were not compared.
	Hidden bool
}

// mask replaces a secret (docs/adr/0022).
const mask = `{"$masked":true}`

// Masked reports whether a document contains a masked secret.
func Masked(doc configdb.JSON) bool {
	if doc.String() == mask {
		return true
	}
	if o, err := configdb.ObjectOf(doc); err == nil {
		return slices.ContainsFunc(o.Members(), func(m configdb.Member) bool { return Masked(m.Value) })
	}
	return slices.ContainsFunc(doc.Elements(), Masked)
}

// Compare compares the resources in files with those of ConfigDB. A missing resource equals one without keys. secrets
// are by resource name.
func Compare(local, remote []Resource, secrets map[string][]configdb.Secret) []Comparison {
	have, want := byName(local), byName(remote)
	names := slices.Sorted(maps.Keys(have))
	for name := range want {
		if _, ok := have[name]; !ok {
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

// lines formats the differences. It names the path of a secret that differs, not its value.
func lines(a, b configdb.JSON, secrets []configdb.Secret) []string {
	maskedA, maskedB := configdb.Mask(a, secrets), configdb.Mask(b, secrets)
	var out []string
	for _, d := range configdb.Diff(maskedA, maskedB) {
		if d.New.String() != mask || d.Old == nil { // otherwise ConfigDB has a value there that it masks
			out = append(out, d.String())
		}
	}
	if Masked(b) {
		return out
	}
	// A secret that differs shows no difference in the masked documents, but one in the originals.
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
