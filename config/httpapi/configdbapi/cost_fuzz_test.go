package configdbapi

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// costSeeds is the number of random inputs with which a plain run of FuzzCost begins: ten minutes are some thousand.
var costSeeds = flag.Uint64("cost-seeds", 3,
	"how many random documents and requests a run of FuzzCost has without -fuzz")

// FuzzCost searches for requests that cost more than allowed, over documents and requests that it generates. Without
// -fuzz, which slows the measured code, it checks the limit itself.
func FuzzCost(f *testing.F) {
	slow := maxTime
	if fuzzing := flag.Lookup("test.fuzz"); fuzzing != nil && fuzzing.Value.String() != "" {
		slow = 5 * maxTime
	}
	for seed := range *costSeeds {
		f.Add(seed, seed*31)
	}
	f.Fuzz(func(t *testing.T, of, to uint64) {
		r := &real{pending: make(chan struct{})}
		r.open(t)
		h := Handler(r, door{}, rest.WithFailures(func(m, p string, err error) { t.Errorf("%s %s: %v", m, p, err) }),
			WithDirectNames())
		rng := rand.New(rand.NewPCG(of, to))
		for _, q := range []asked{
			{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"a"},{"name":"b"}]}`},
			{method: "POST", target: "environments", body: `{"id":1,"components":["c"],"hierarchy_levels":["role","nodes"]}`},
			{method: "PUT", target: "environments/1/resources/a/values", body: anyObject(rng, 1+rng.IntN(4<<20))},
			{method: "PUT", target: "environments/1/resources/a/values", body: anyObject(rng, 1+rng.IntN(4<<20))},
			{method: "PUT", target: "environments/1/role/r/nodes/1/resources/a/overrides",
				body: anyObject(rng, 1+rng.IntN(4<<20))},
			{method: "PUT", target: "resource_definitions/2", body: `{"content":{"$template":` +
				anyObject(rng, 1+rng.IntN(4<<20)) + `}}`},
			{method: "PUT", target: "resource_definitions/1/secrets",
				body: joined(`{"secrets":[`, "]}", 1+rng.IntN(50),
					func(int) string { return configdb.Quote(strings.Repeat("*.", rng.IntN(9)) + "k").String() })},
		} {
			q.token = "admin"
			holdsTo(t, h, q, slow)
		}
		all := append(asks("a"), asks("b")...)
		for range 4 {
			holdsTo(t, h, all[rng.IntN(len(all))], slow)
		}
		for range 6 {
			holdsTo(t, h, anyAsk(rng), slow)
		}
	})
}

// anyAsk returns a request over what FuzzCost has stored, of kinds that asks has not or only in one form: differences,
// histories and rollbacks, lookups of many keys, paths and headers of maximum length, writes that are validated.
func anyAsk(rng *rand.Rand) asked {
	place := []string{"environments/1/", "environments/1/role/r/nodes/1/"}[rng.IntN(2)]
	resource, half := []string{"a", "b"}[rng.IntN(2)], []string{"values", "overrides"}[rng.IntN(2)]
	at := place + "resources/" + resource + "/" + half
	switch rng.IntN(12) {
	case 0:
		return asked{method: "GET", target: fmt.Sprintf("%s/diff?from=%d&to=%d", at, rng.IntN(3), 1+rng.IntN(2))}
	case 1:
		return asked{method: "GET", target: fmt.Sprintf("%s?effective&version=%d&revision=%d", at, rng.IntN(3), rng.IntN(9))}
	case 2:
		return asked{method: "POST", token: "operator", target: at + "/rollback?dryRun=1",
			body: fmt.Sprintf(`{"version":%d}`, 1+rng.IntN(2))}
	case 3:
		return asked{method: "POST", token: "operator", target: place + "rollback?dryRun=1",
			body: fmt.Sprintf(`{"revision":%d}`, 1+rng.IntN(8))}
	case 4:
		return asked{method: "GET",
			target: []string{"components", "resource_definitions", "resource_definitions/2", "history",
				"environments/1/hierarchy_levels", at + "/history"}[rng.IntN(6)], token: []string{"viewer", "admin"}[rng.IntN(2)]}
	case 5:
		return asked{method: "GET", target: place + "hiera/lookup/" + escapedAll(anyKey(rng, rng.IntN(16<<10))) +
			"?resources=a,b,a&merge=deep"}
	case 6:
		return asked{method: "GET", target: at + "?effective&key=" + url.QueryEscape(anyKey(rng, rng.IntN(20<<10)))}
	case 7:
		tag := `W/"` + strings.Repeat("x", rng.IntN(64)) + `",`
		return asked{method: "GET", target: at + "?effective",
			header: map[string]string{"If-None-Match": strings.Repeat(tag, (60<<10)/len(tag)) + `"y"`}}
	case 8:
		tag := `"` + strings.Repeat("x", rng.IntN(64)) + `",`
		return asked{method: "PUT", token: "operator", target: at + "?dryRun=1", body: anyObject(rng, 1+rng.IntN(4<<20)),
			header: map[string]string{"If-Match": strings.Repeat(tag, (60<<10)/len(tag)) + `"y"`}}
	case 9:
		one := func(n int) string { return anyObject(rng, 1+rng.IntN(n)) }
		return asked{method: "POST", token: "operator", target: place + "bulk?dryRun=1",
			body: fmt.Sprintf(`{"resources":{"a":{"values":%s,"overrides":%s},"b":{"values":%s}}}`, one(2<<20), one(2<<20),
				one(2<<20))}
	case 10:
		op := []string{"set", "delete", "get"}[rng.IntN(3)]
		paths := joined("[", "]", 1+rng.IntN(configdb.MaxPaths), func(int) string {
			n := 1 + rng.IntN(5)
			if rng.IntN(50) == 0 {
				n = 1 + rng.IntN(500)
			}
			keys := joined("[", "", n, func(int) string { return anyStep(rng) })
			if op == "set" {
				keys += fmt.Sprint(`,{"k":`, rng.IntN(9), "}")
			}
			return keys + "]"
		})
		return asked{method: "PATCH", token: "operator", target: at + "/keys/" + op +
			[]string{"?dryRun=1", ""}[map[string]int{"get": 1}[op]], body: paths}
	default:
		keys, left := []string{}, model.MaxKeyBytes
		for range 1 + rng.IntN(model.MaxKeys) {
			k := anyKey(rng, min(left, 1+rng.IntN(1+rng.IntN(4<<10))))
			if left -= len(k); left < 0 {
				break
			}
			keys = append(keys, configdb.Quote(k).String())
		}
		resources := joined("[", "]", 1+rng.IntN(model.MaxResources),
			func(int) string { return []string{`"a"`, `"b"`}[rng.IntN(2)] })
		return asked{method: "POST", target: place + "hiera/lookup",
			body: fmt.Sprintf(`{"keys":[%s],"resources":%s,"merge":%q,"sort_merged_arrays":%v,"merge_hash_arrays":%v}`,
				strings.Join(keys, ","), resources, []string{"first", "unique", "hash", "deep"}[rng.IntN(4)], rng.IntN(2) == 0,
				rng.IntN(2) == 0)}
	}
}

// anyStep returns a key or an index for a path, of those that anyObject creates.
func anyStep(rng *rand.Rand) string {
	switch rng.IntN(5) {
	case 0, 1:
		return []string{`"a"`, `"k"`, `"o"`}[rng.IntN(3)]
	case 2:
		return fmt.Sprint(rng.IntN(20_000))
	case 3:
		return fmt.Sprintf(`"%d"`, rng.IntN(20_000))
	}
	return `"0"`
}

// anyKey returns a key as Puppet writes it, of about size bytes.
func anyKey(rng *rand.Rand, size int) string {
	b := []byte([]string{"a", "k", "lookup_options"}[rng.IntN(3)])
	for len(b) < size {
		part := strings.Trim(anyStep(rng), `"`)
		if rng.IntN(20) == 0 {
			part = `'` + strings.Repeat("x.", rng.IntN(2000)) + `y'`
		}
		b = append(append(b, '.'), part...)
	}
	return string(b)
}

// escapedAll escapes each byte, needed or not.
func escapedAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// anyObject returns an object of about size bytes, of a random nested shape.
func anyObject(rng *rand.Rand, size int) string {
	var b strings.Builder
	anyValue(rng, &b, size, 0)
	return `{"a":` + b.String() + `,"k":{"o":` + `"%{a:a}"}}`
}

func anyValue(rng *rand.Rand, b *strings.Builder, size, depth int) {
	kind := rng.IntN(8)
	if size < 16 || depth > 900 {
		kind = 6 + rng.IntN(2)
	}
	switch kind {
	case 0: // a number of many digits
		b.WriteString("1" + strings.Repeat("7", size))
	case 1:
		b.WriteString(configdb.Quote(strings.Repeat([]string{"x", "%{", "%{a:k}", "\"", "--", "é"}[rng.IntN(6)],
			size/7)).String())
	case 2, 3: // nested in each other
		b.WriteString(`{"k":`)
		anyValue(rng, b, size-6, depth+1)
		b.WriteByte('}')
	case 4, 5: // several, which share the remaining size
		n := 1 + rng.IntN(1+min(size/8, 20_000))
		open, end := "[", "]"
		if kind == 5 {
			open, end = "{", "}"
		}
		b.WriteString(joined(open, end, n, func(i int) string {
			var one strings.Builder
			if kind == 5 {
				fmt.Fprintf(&one, `"%d":`, i)
			}
			anyValue(rng, &one, size/n-8, depth+1+rng.IntN(200))
			return one.String()
		}))
	case 6:
		fmt.Fprintf(b, "%d", rng.IntN(1000))
	default:
		fmt.Fprintf(b, `"--%d"`, rng.IntN(1000))
	}
}
