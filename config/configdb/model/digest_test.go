package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// Nobody without the key can tell a secret by a digest or an ETag: before, a digest was equal to that of the guess.
func TestDigestsCanNotBeGuessed(t *testing.T) {
	d := fuel(t, "nodes")
	const guess = `{"password":"s3cret"}`
	d.must(DeclareSecrets{ID: 1, Keys: []string{"password"}})
	d.put("9/astute", guess)
	sum := sha256.Sum256([]byte(guess))
	plain := hex.EncodeToString(sum[:])
	tag := sha256.Sum256(fmt.Appendf(nil, `raw values 1 %s without ["password"]`, plain))
	seen := func(s *State) string {
		t.Helper()
		var all strings.Builder
		fmt.Fprint(&all, ok(s.Versions(VersionsQuery{Target: target("9/astute"), Kind: Values}, d.store))(t),
			ok(s.Records(RecordsQuery{}, d.store))(t))
		for _, q := range []Query{{Kind: Values}, {Kind: Values, Effective: true}, {Kind: Values, Key: []string{"a"}}} {
			q.Target = target("9/astute")
			fmt.Fprint(&all, ok(s.Chain(q, d.store))(t).ETag())
		}
		return all.String()
	}
	if without := seen(d.state); strings.Count(without, plain) != 2 ||
		!strings.Contains(without, hex.EncodeToString(tag[:16])) {
		t.Errorf("the guess is another than what is seen without a key: %s", without)
	}
	one, other := seen(d.state.WithKey(Key("one"))), seen(d.state.WithKey(Key("other")))
	if strings.Contains(one, plain) || strings.Contains(one, hex.EncodeToString(tag[:16])) {
		t.Errorf("%s", one)
	}
	equal(t, "another key", one == other, false)
	equal(t, "the same at each replica", seen(ok(Load(d.store))(t).WithKey(Key("one"))), one)
	// A write is bound to what was seen, by the key too.
	d.state = d.state.WithKey(Key("one"))
	seenAs := ok(d.state.Chain(Query{Target: target("9/astute"), Kind: Values}, d.store))(t).ETag()
	w := d.must(Put{Target: target("9/astute"), Kind: Values, Value: doc(t, `{"a":1}`), IfMatch: []string{seenAs}})
	equal(t, "the ETag of a write", w.ETag,
		ok(d.state.Chain(Query{Target: target("9/astute"), Kind: Values, Reveal: true}, d.store))(t).ETag())
}
