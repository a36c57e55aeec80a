package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// page is the document whose commands are run here.
const page = "../../docs/high-availability.md"

// operator is a person who reads the page and types its commands.
type operator struct {
	*cluster
	path   string          // with etcdctl in it
	places map[int]*member // by their number on the page
	lines  []string        // not typed yet
	env    []string
}

// commandsOf returns the lines of the sh blocks of a page, with continued lines joined.
func commandsOf(t testing.TB, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, block := range strings.Split(string(text), "\n```") {
		if rest, ok := strings.CutPrefix(block, "sh\n"); ok && i%2 == 1 {
			out = append(out, strings.Split(strings.ReplaceAll(rest, "\\\n", ""), "\n")...)
		}
	}
	return out
}

func (c *cluster) operator() *operator {
	c.Helper()
	ctl, err := built("etcdctl", "go.etcd.io/etcd/etcdctl/v3")
	if err != nil {
		c.Fatal(err)
	}
	o := &operator{cluster: c, path: filepath.Dir(ctl), places: map[int]*member{}, lines: commandsOf(c.TB, page)}
	for i, m := range c.members {
		o.places[i+1] = m
	}
	return o
}

var address = regexp.MustCompile(`10\.0\.0\.(\d):(2379|2380)`)

// here returns a command of the page with the addresses of this cluster.
func (o *operator) here(line string) string {
	return address.ReplaceAllStringFunc(line, func(text string) string {
		part := address.FindStringSubmatch(text)
		n, _ := strconv.Atoi(part[1])
		if o.places[n] == nil {
			o.places[n] = o.place(n)
		}
		if part[2] == "2379" {
			return o.places[n].client
		}
		return o.places[n].peer
	})
}

// types runs the commands of the page up to and including the first one that begins with last.
func (o *operator) types(last string) {
	o.Helper()
	for len(o.lines) > 0 {
		line := o.lines[0]
		o.lines = o.lines[1:]
		switch word, rest, _ := strings.Cut(line, " "); {
		case word == "export":
			o.env = append(o.env, o.here(rest))
		case word == "etcd":
			o.begins(line)
		case strings.Contains(line, "etcdctl "):
			o.etcdctl(o.here(line))
		}
		if strings.HasPrefix(line, last) {
			return
		}
	}
	o.Fatalf("%s has no command %q, or has it earlier", page, last)
}

// begins starts a member that the page starts; those of the test run already.
func (o *operator) begins(line string) {
	o.Helper()
	flags := strings.Fields(o.here(line))[1:]
	name := flags[slices.Index(flags, "--name")+1]
	n, err := strconv.Atoi(strings.TrimPrefix(name, "etcd-"))
	if err != nil {
		o.Fatal(err)
	}
	m := o.places[n]
	if m.name != name {
		o.Fatalf("%s has the address of %s", name, m.name)
	}
	if slices.Contains(o.members, m) {
		return
	}
	flags[slices.Index(flags, "--data-dir")+1] = m.dir
	o.members = append(o.members, m)
	o.run(m, flags...)
}

// refusedForNow are the answers after which the page says to repeat a command.
var refusedForNow = []string{"in sync with leader", "unhealthy cluster"}

// etcdctl runs a command in a shell, and repeats it where the page says so.
func (o *operator) etcdctl(line string) {
	o.Helper()
	o.until(line, func(ctx context.Context) bool {
		cmd := exec.CommandContext(o.Context(), "sh", "-c", line)
		cmd.Env = append(append(os.Environ(), "PATH="+o.path+":"+os.Getenv("PATH")), o.env...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			o.Logf("$ %s\n%s", line, out)
			return true
		}
		if strings.Contains(line, "member remove") && strings.Contains(string(out), "server stopped") {
			return o.isRemoved(line)
		}
		if !slices.ContainsFunc(refusedForNow, func(why string) bool { return strings.Contains(string(out), why) }) {
			o.Fatalf("%s: %v\n%s", line, err, out)
		}
		return false
	})
}

var grepped = regexp.MustCompile(`grep (\S+)`)

// isRemoved checks, as the page says, whether the member that a command removes is gone: a member that is asked to
// remove itself may end before it has answered.
func (o *operator) isRemoved(remove string) bool {
	o.Helper()
	cmd := exec.CommandContext(o.Context(), filepath.Join(o.path, "etcdctl"), "member", "list")
	cmd.Env = append(os.Environ(), o.env...)
	out, err := cmd.Output()
	if err != nil {
		o.Fatalf("member list after %q: %v", remove, err)
	}
	o.Logf("$ %s\nserver stopped\n$ etcdctl member list\n%s", remove, out)
	return !strings.Contains(string(out), grepped.FindStringSubmatch(remove)[1])
}

// gone removes a member from those of the cluster.
func (o *operator) gone(m *member) {
	o.Helper()
	o.members = slices.DeleteFunc(slices.Clone(o.members), func(one *member) bool { return one == m })
}

// TestMembersOfThePage types the commands of docs/high-availability.md while writers write: a fourth member is added, a
// dead one is replaced with its disk, and one is removed. The writers and the watcher know only the first three
// members, of which one is left in the end: no acknowledged write is lost, every event arrives once.
func TestMembersOfThePage(t *testing.T) {
	c := begin(t)
	o := c.operator()
	w := c.work("fleet", 3)
	w.goOn(20)
	first, second := o.places[1], o.places[2]

	o.types("etcdctl member promote")
	c.answers(o.places[4])
	w.goOn(20)

	c.kill(second)
	if err := os.RemoveAll(second.dir); err != nil {
		t.Fatal(err)
	}
	w.goOn(20)
	o.types("etcdctl member remove")
	o.gone(second)
	w.goOn(20)
	o.types("etcdctl member promote")
	c.answers(o.places[5])
	w.goOn(20)

	o.types("etcdctl member remove")
	select {
	case <-first.ended:
		first.process = nil
	case <-t.Context().Done():
		t.Fatal("a member that was removed goes on")
	}
	o.gone(first)
	w.goOn(20)
	if names := fmt.Sprint(len(c.members), " ", c.members[0].name); names != "3 etcd-3" {
		t.Fatal(names)
	}
	w.finish()
	if o.env = []string{"ETCDCTL_ENDPOINTS=" + o.places[3].endpoint()}; len(o.lines) == 0 {
		t.Error("the page ends here")
	}
	o.types("etcdctl alarm list")
}
