package supportcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/netinst/doctor"
	"edgespan/platform/daemon"
	"edgespan/platform/facts"
	"edgespan/platform/support"
)

// daemonUnit is the systemd unit of the daemon.
const daemonUnit = "edgespan.service"

// aliveTimeout bounds the first request to the daemon: one that does not answer it is asked nothing more.
const aliveTimeout = 3 * time.Second

// maxFlows bounds the lines of the flow log in an archive.
const maxFlows = 5000

// parts returns the parts of an archive in their order: the configs come first, so that the parts behind them do not
// show their secrets.
func (c *collection) parts(now time.Time) []support.Part {
	host := support.Host{Daemon: c.daemon.Process, RunDir: c.daemon.RunDir, StateDir: c.daemon.StateDir,
		Log: c.daemon.Log, Unit: daemonUnit, Since: c.since}
	out := c.configParts()
	out = append(out, c.daemonParts(now)...)
	out = append(out, c.doctorPart())
	out = append(out, c.recordingParts()...)
	out = append(out, host.Parts()...)
	log := host.LogPart()
	if c.noLogs {
		log.Missing = "--no-logs"
	}
	return append(out, log)
}

// slots are the stored configs of a node.
var slots = []struct {
	slot  commitconfirm.Slot
	about string
}{
	{commitconfirm.SlotConfirmed, "the stored config that is confirmed, with its PeerConfiguration"},
	{commitconfirm.SlotPending, "the stored config that waits for its confirmation"},
	{commitconfirm.SlotCopy, "the copy of the confirmed config"},
}

// configParts returns the config file and the stored configs.
func (c *collection) configParts() []support.Part {
	out := []support.Part{{Name: "about.json", About: "what the daemon was started with", JSON: true,
		Collect: func(_ context.Context, w io.Writer) error { return json.NewEncoder(w).Encode(c.daemon) }},
		{Name: "config/file.json", About: "the config file, without secrets", Limit: nodeapi.MaxDocument,
			Mask: c.maskFile, Collect: c.readConfigFile}}
	files := daemon.NewFiles("", c.daemon.StateDir)
	for _, s := range slots {
		out = append(out, support.Part{Name: "config/" + string(s.slot) + ".json", About: s.about + ", without secrets",
			Limit: storedLimit, Mask: c.maskStored, Collect: func(_ context.Context, w io.Writer) error {
				text, err := files.Slots.Read(string(s.slot))
				if errors.Is(err, fs.ErrNotExist) {
					return errors.New("there is none")
				}
				if err == nil {
					_, err = w.Write(text)
				}
				return err
			}})
	}
	return out
}

// storedLimit is more than a stored config may have: two documents and what belongs to them.
const storedLimit = 4 * nodeapi.MaxDocument

func (c *collection) readConfigFile(_ context.Context, w io.Writer) error {
	f, err := os.Open(c.daemon.Config)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	_, err = io.Copy(w, io.LimitReader(f, nodeapi.MaxDocument+1))
	return err
}

// maskFile masks the config file. What can't be read as a mapping is left out, since nothing says what is secret in it.
func (c *collection) maskFile(text []byte) ([]byte, error) {
	doc, _ := config.ReadDocument(text)
	if doc.Object == nil {
		return nil, errors.New("is no mapping of YAML or JSON; its text is left out, since it may have secrets")
	}
	return encode(c.redact.Document(c.schema, doc.Object))
}

// maskStored masks a stored config.
func (c *collection) maskStored(text []byte) ([]byte, error) {
	r, err := commitconfirm.DecodeRecord(text)
	if err != nil {
		return nil, errors.New("is damaged") // the error could quote it
	}
	var peer any
	if r.Peer != "" && json.Unmarshal([]byte(r.Peer), &peer) != nil {
		peer = "is damaged"
	}
	return encode(map[string]any{
		"source": r.Source, "generation": r.Generation, "restores": r.Restores, "fileDigest": r.FileDigest,
		"document": c.redact.Document(c.schema, r.Document), "peerConfiguration": c.redact.Names(peer),
		"results": r.Results,
	})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := printJSON(&b, v)
	return b.Bytes(), err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// daemonParts returns what only the daemon knows. If it does not answer, all of them are left out.
func (c *collection) daemonParts(now time.Time) []support.Part {
	client := c.Client()
	get := func(path string, q url.Values) func(context.Context, io.Writer) error {
		return func(ctx context.Context, w io.Writer) error {
			return client.Copy(ctx, rest.Request{Method: http.MethodGet, Path: path, Query: q}, w)
		}
	}
	var out []support.Part
	for _, kind := range nodeapi.Kinds() {
		out = append(out, support.Part{Name: "status/" + kind + ".json", About: "edgespan get " + kind, JSON: true,
			Limit: 4 << 20, Collect: get("/v1/"+kind, nil)})
	}
	out = append(out,
		support.Part{Name: "status/ready.json", About: "the checks of the daemon's readiness", JSON: true,
			Collect: get("/readyz", url.Values{"verbose": {"1"}})},
		support.Part{Name: "diff.json", About: "differences between the host and the desired state", JSON: true,
			Collect: get("/v1/diff", nil)},
		support.Part{Name: "plan.json", About: "what applying the config file would change", JSON: true,
			Collect: func(ctx context.Context, w io.Writer) error { return c.plan(ctx, client, w) }},
		support.Part{Name: "events.jsonl", About: "what happened", JSON: true,
			Collect: func(ctx context.Context, w io.Writer) error { return c.events(ctx, client, now, w) }},
		support.Part{Name: "metrics.txt", About: "the daemon's metrics", Limit: 4 << 20, Collect: get("/metrics", nil)},
		support.Part{Name: "goroutines.txt", About: "the daemon's goroutines, memory and build", Limit: 5 << 20,
			Collect: client.Goroutines})
	flows := support.Part{Name: "flows.jsonl", About: "the end of the flow log", JSON: true, Limit: 4 << 20,
		Collect: get("/v1/flows", url.Values{"last": {strconv.Itoa(maxFlows)}})}
	if !c.flows {
		flows.Missing = "only with --flows: it says who talked to whom"
	}
	out = append(out, flows)
	if why := c.silence(client); why != "" {
		for i := range out {
			if out[i].Missing == "" {
				out[i].Missing = why
			}
		}
	}
	return out
}

// silence returns why the daemon does not answer, "" if it does.
func (c *collection) silence(client *nodeapi.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), aliveTimeout)
	defer cancel()
	_, err := client.Version(ctx)
	switch {
	case err == nil:
		return ""
	case c.daemon.Process.Pid != 0 && errors.Is(err, rest.ErrTimeout):
		return fmt.Sprintf("the daemon, process %d, runs and does not answer within %v", c.daemon.Process.Pid, aliveTimeout)
	}
	return strings.TrimSuffix(err.Error(), nodeapi.DoctorHint)
}

// plan writes what applying the config file would change.
func (c *collection) plan(ctx context.Context, client *nodeapi.Client, w io.Writer) error {
	var file bytes.Buffer
	if err := c.readConfigFile(ctx, &file); err != nil {
		return err
	}
	changes, err := client.Preview(ctx, file.Bytes())
	if err != nil {
		return err
	}
	return printJSON(w, changes)
}

// events writes the events since the time of --since.
func (c *collection) events(ctx context.Context, client *nodeapi.Client, now time.Time, w io.Writer) error {
	lines := json.NewEncoder(w)
	return client.Events(ctx, nodeapi.EventQuery{}, func(e nodeapi.Event) error {
		if e.Time.Before(now.Add(-c.since)) {
			return nil
		}
		return lines.Encode(e)
	})
}

// doctorPart returns the problems of the node, as the daemon or, without it, this program finds them.
func (c *collection) doctorPart() support.Part {
	return support.Part{Name: "doctor.json", About: "problems of this node", JSON: true,
		Collect: func(ctx context.Context, w io.Writer) error {
			ask, cancel := context.WithTimeout(ctx, aliveTimeout)
			defer cancel()
			found, err := c.Client().Doctor(ask)
			if err == nil {
				return printJSON(w, found)
			}
			f, outside := facts.Reader{Root: "/", RunDir: c.daemon.RunDir}.Read(ctx)
			if outside != nil {
				return outside
			}
			found = append(found, nodeapi.Finding{Check: "daemon", Level: nodeapi.Problem, Text: err.Error()})
			for _, x := range doctor.Examine(f, doctor.Node{}) {
				found = append(found, nodeapi.Finding(x))
			}
			return printJSON(w, found)
		}}
}
