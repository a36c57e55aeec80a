package cores

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"edgespan/config/stateloop/peer/task"
	"edgespan/pubsub/tape"
)

// marks are the methods by which types become events, effects and objects, by package.
var marks = map[string][]string{
	"netinst/manager": {"niEvent", "niEffect"}, "netinst/probe": {"chooserEvent", "chooserEffect"},
	"appnet": {"event", "effect"}, "netinst/registry": {"registryEvent", "registryEffect"},
	"netinst/addressing": {"addressingEvent", "addressingEffect"}, "netinst/dhcpclient": {"dhcpEvent", "dhcpEffect"},
	"config/stateloop/peer/task": {"event"}, "netinst/netstate": {"Needs"},
}

// A type that no recording knows would end the recording of its core.
func TestEveryEventEffectAndObjectIsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, v := range types {
		known[strings.TrimPrefix(reflect.TypeOf(v).PkgPath(), "edgespan/")+"."+reflect.TypeOf(v).Name()] = true
	}
	found := 0
	for dir, methods := range marks {
		source := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
		parsed, err := parser.ParseDir(token.NewFileSet(), "../../../"+dir, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range parsed {
			for _, file := range pkg.Files {
				for _, d := range file.Decls {
					f, is := d.(*ast.FuncDecl)
					if !is || f.Recv == nil || !slices.Contains(methods, f.Name.Name) {
						continue
					}
					name := fmt.Sprint(dir, ".", f.Recv.List[0].Type)
					if found++; !known[name] && name != "netinst/netstate.Item" {
						t.Errorf("%s is missing in types", name)
					}
				}
			}
		}
	}
	if found < 90 {
		t.Errorf("only %d types were found", found)
	}
}

func TestWhichFieldsAreSecrets(t *testing.T) {
	for name, want := range map[string]bool{
		"IPsecEnd.Secret": true, "IPsecEnd.Key": true, "WireGuard.PrivateKey": true, "WireGuardPeer.PresharedKey": true,
		"psk": true, "Spec.Env": true,
		"WireGuard.PublicKey": false, "AdapterStatus.Key": false, "Lease.MAC": false,
	} {
		if got := isSecret(name); got != want {
			t.Errorf("%s is a secret: %v", name, got)
		}
	}
}

// What a program prints of secrets of its own, which no config names, is masked by its form.
func TestTheReasonOfATaskHasNoSecret(t *testing.T) {
	var disk memory
	r, end := recorder(&disk)
	m, l := &task.Machine{}, r.Reel(Tasks, "")
	tape.Step(l, m, task.Event(task.Answered{ID: "a", Reason: "exited with status 1: login failed: password=hunter2"}))
	end()
	if text := disk.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "login failed") {
		t.Errorf("%s", text)
	}
}
