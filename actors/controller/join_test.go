package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

func TestJoin(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		inv, err := c.Invite(r.Context(), alice, "n1", time.Hour, false)
		if err != nil || !strings.Contains(inv.Command, inv.Token) {
			t.Fatal(inv, err)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "NotJoined")
		n := newFakeNode(r, "n1")
		j := nodeproto.Join{Token: inv.Token, Name: "n1", Node: n.id, Key: "k"}
		for what, bad := range map[string]nodeproto.Join{
			"a wrong token":        {Token: "no", Name: "n1", Node: n.id, Key: "k"},
			"another name's token": {Token: inv.Token, Name: "n2", Node: n.id, Key: "k"},
			"no name, wrong token": {Token: "no", Node: n.id, Key: "k"},
		} {
			if refusal(c.Join(r.Context(), bad)) == nil {
				t.Error(what, "was taken")
			}
		}
		for range 2 { // the second time for a lost answer
			if err := refusal(c.Join(r.Context(), j)); err != nil {
				t.Fatal(err)
			}
		}
		j.Name = "" // the token's name applies
		if joined, err := c.Join(r.Context(), j); joined.Name != "n1" || err != nil {
			t.Error("without a name:", joined, err)
		}
		j.Key = "another"
		if refusal(c.Join(r.Context(), j)) == nil {
			t.Error("a token was spent twice")
		}
		inv, err = c.Invite(r.Context(), alice, "n2", 0, false)
		if left := time.Until(inv.Expires); err != nil || left < 23*time.Hour || left > 24*time.Hour {
			r.Errorf("an invitation without a time: %+v, %v", inv, err)
		}
		if refusal(c.Join(r.Context(), nodeproto.Join{Token: inv.Token, Name: "n2", Node: n.id, Key: "k"})) == nil {
			t.Error("a node got a second name")
		}
		if _, err := c.Invite(r.Context(), alice, "n1", time.Hour, false); !errors.Is(err, fleetapi.ErrRefused) {
			t.Error("a second node was invited for a name:", err)
		}
		n.connect(c)
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
		inv, err = c.Invite(r.Context(), alice, "n1", time.Hour, true)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if n.stream != nil || len(r.issuer.revoked) != 1 || r.issuer.revoked[0].Node != n.id {
			t.Errorf("a replaced node is connected, or not revoked: %v", r.issuer.revoked)
		}
		if c.Admit(r.Context(), nodeproto.Hello{Node: n.id}) == nil {
			t.Error("a replaced node was admitted")
		}
		other := newFakeNode(r, "n1b")
		if err := refusal(c.Join(r.Context(),
			nodeproto.Join{Token: inv.Token, Name: "n1", Node: other.id, Key: "k"})); err != nil {
			t.Fatal(err)
		}
		other.connect(c)
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		if _, err := c.Node(r.Context(), "n1"); err == nil || other.stream != nil {
			t.Error("a forgotten node is known:", err)
		}
	})
}

// TestAnInvitationIsWithdrawn forgets a name that was invited by mistake: its token is worth nothing, and the fleet no
// longer expects it.
func TestAnInvitationIsWithdrawn(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		inv, err := c.Invite(r.Context(), alice, "n1", time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "NotJoined")
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if _, err := c.Node(r.Context(), "n1"); err == nil {
			t.Error("it is still expected")
		}
		for _, name := range []string{"n1", ""} {
			j := nodeproto.Join{Token: inv.Token, Name: name, Node: uuid.NewString(), Key: "k"}
			if refusal(c.Join(r.Context(), j)) == nil {
				t.Errorf("its token was taken for the name %q", name)
			}
		}
		r.write(c, ops.SetTopology{Document: r.doc(`{"sites":[{"name":"s","location":{"latitude":1,"longitude":1,
			"altitude":1,"accuracy":1}}],"nodes":[{"name":"n1","mac_addr":"02:00:00:00:00:01","node_type":2,"site_name":"s",
			"pop_node":true}]}`)})
		r.pass(time.Second)
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); !errors.Is(err, fleetapi.ErrRefused) {
			t.Error("a node that is only in the topology is forgotten:", err)
		}
	})
}

// TestTheSameMachineJoinsAgain replaces a node with a copied key by itself: its revocation remains and lets the
// certificates of the new join through, also where an answer is lost.
func TestTheSameMachineJoinsAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "n1")
		again := func(invite func() (fleetapi.Invitation, error)) nodeproto.Joined {
			t.Helper()
			inv, err := invite()
			if err != nil {
				t.Fatal(err)
			}
			if n.stream != nil {
				n.cut()
			}
			var out nodeproto.Joined
			for i := range 2 { // the second time for a lost answer
				joined, err := c.Join(r.Context(), nodeproto.Join{Token: inv.Token, Name: "n1", Node: n.id, Key: inv.Token})
				if err != nil || joined.Joining == "" || i > 0 && joined != out {
					t.Fatalf("joined %+v, before %+v: %v", joined, out, err)
				}
				out = joined
				// The answer is only given once this replica's current list knows the join.
				if list := r.issuer.revoked; len(list) != 1 || list[0].Node != n.id || list[0].Joining != out.Joining {
					t.Errorf("revocations in force when the node hears %+v: %+v", out, list)
				}
			}
			n.connect(c)
			r.pass(time.Second)
			r.wants(c, "n1", "InSync")
			return out
		}
		first := again(func() (fleetapi.Invitation, error) { return c.Invite(r.Context(), alice, "n1", time.Hour, true) })
		second := again(func() (fleetapi.Invitation, error) {
			if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
				t.Fatal(err)
			}
			return c.Invite(r.Context(), alice, "n1", time.Hour, false)
		})
		if first.Joining == second.Joining {
			t.Error("two joins are the same")
		}
	})
}

// TestAJoinWithoutANameIsNoReadOfTheStore sends unknown tokens, as any client may.
func TestAJoinWithoutANameIsNoReadOfTheStore(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		ask := func(token string) error {
			return refusal(c.Join(r.Context(), nodeproto.Join{Token: token, Node: uuid.NewString(), Key: "k"}))
		}
		for i := range 300 {
			inv, err := c.Invite(r.Context(), alice, fmt.Sprintf("n%d", i), time.Hour, false)
			if err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 { // before the watch of the store has delivered it
				if err := ask(inv.Token); err != nil {
					t.Fatal(err)
				}
				r.pass(2 * time.Second)
			}
		}
		r.pass(2 * time.Second)
		before := r.store.Lists()
		for i := range 1000 {
			if ask(fmt.Sprintf("esj-guess-%d", i)) == nil {
				t.Fatal("a guess joined")
			}
		}
		if n := r.store.Lists() - before; n > 1 {
			t.Errorf("1,000 joins without a name listed the store %d times", n)
		}
		inv, err := c.Invite(r.Context(), alice, "late", time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Millisecond)
		if err := ask(inv.Token); err != nil { // while others are guessing
			t.Error(err)
		}
		r.pass(time.Second)
	})
}

// TestAnAdministratorStays has two replicas remove the last two administrators at once, and does not count one whose
// token has expired.
func TestAnAdministratorStays(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		soon := time.Now().Add(time.Minute)
		for name, expires := range map[string]*time.Time{"ann": nil, "bea": nil, "old": &soon} {
			if _, err := a.AddOperator(r.Context(), alice,
				fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin, Expires: expires}); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Hour)
		errs := make(chan error, 2)
		for c, name := range map[*Controller]string{a: "ann", b: "bea"} {
			go func() { errs <- c.RemoveOperator(r.Context(), alice, name) }()
		}
		r.pass(time.Second)
		if one, two := <-errs, <-errs; (one == nil) == (two == nil) {
			t.Errorf("both: %v, %v", one, two)
		}
		left, err := a.Operators(r.Context())
		if err != nil || len(left) != 2 {
			t.Fatalf("%+v, %v", left, err)
		}
		for _, t1 := range left {
			if t1.Name != "old" {
				if err := b.RemoveOperator(r.Context(), alice, t1.Name); !errors.Is(err, fleetapi.ErrRefused) {
					t.Errorf("beside an expired token the last administrator: %v", err)
				}
			}
		}
	})
}

func TestOperatorsAreKnownByTheirTokens(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		text, err := a.AddOperator(r.Context(), alice, fleetapi.OperatorToken{Name: "bob", Role: fleetapi.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Controller{a, b} {
			who, err := c.Authenticate(r.Context(), hashText(text))
			if err != nil || who != (fleetapi.Caller{Name: "bob", Role: fleetapi.Viewer}) {
				t.Error(who, err)
			}
		}
		for name, says := range map[string]string{"controller": `name: "controller" is reserved`,
			"local": `name: "local" is reserved`, "": "name: required"} {
			_, err := a.AddOperator(r.Context(), alice, fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin})
			if !errors.Is(err, fleetapi.ErrRefused) || !strings.Contains(err.Error(), says) {
				t.Errorf("a token named %q: %v", name, err)
			}
		}
		if err := b.RemoveOperator(r.Context(), fleetapi.Caller{Role: fleetapi.Operator}, "bob"); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		for _, c := range []*Controller{a, b} {
			if _, err := c.Authenticate(r.Context(), hashText(text)); !errors.Is(err, fleetapi.ErrNoToken) {
				t.Error("a removed token opens:", err)
			}
		}
	})
}
