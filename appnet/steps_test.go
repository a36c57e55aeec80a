package appnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// Two networks and one app take part in the sentences.
var (
	blue = uuid.UUID{15: 1}
	red  = uuid.UUID{15: 2}
	web  = uuid.UUID{15: 0xaa}
)

// at is the desired network of each adapter, by index.
type at []uuid.UUID

// nowhere stands for an adapter that is not desired.
var nowhere uuid.UUID

func configured(activate bool, adapters at) appnet.ConfigChanged {
	c := appnet.AppNetworkConfig{UUID: web, DisplayName: "web", Activate: activate,
		Adapters: map[int]netinst.AdapterSpec{}}
	for i, ni := range adapters {
		if ni != nowhere {
			c.Adapters[i] = netinst.AdapterSpec{NetworkInstance: ni}
		}
	}
	return appnet.ConfigChanged{Config: c}
}

func on(adapters ...uuid.UUID) appnet.ConfigChanged  { return configured(true, adapters) }
func off(adapters ...uuid.UUID) appnet.ConfigChanged { return configured(false, adapters) }

func online(ni uuid.UUID) appnet.NetworkOnline {
	return appnet.NetworkOnline{NI: ni, Status: netinst.NetworkInstanceStatus{UUID: ni, DisplayName: word(ni)}}
}

func offline(ni uuid.UUID) appnet.NetworkOffline { return appnet.NetworkOffline{NI: ni} }

func adapter(index int) netinst.AdapterKey {
	return netinst.AdapterKey{AppUUID: web, Index: index}
}

// told returns a bridge manager's answer.
func told(ni uuid.UUID, index int, version uint64, active bool) appnet.AdapterStatusChanged {
	return appnet.AdapterStatusChanged{Scope: ni, Status: netinst.AppAdapterStatus{
		AppUUID: web, Index: index, TargetVersion: version, Activated: active,
	}}
}

func failed(ni uuid.UUID, index int, version uint64, why string) appnet.AdapterStatusChanged {
	e := told(ni, index, version, false)
	e.Status.Error = why
	return e
}

func gone(ni uuid.UUID, index int) appnet.AdapterStatusGone {
	return appnet.AdapterStatusGone{Scope: ni, Key: adapter(index)}
}

func due(token uint64) appnet.ResendDue { return appnet.ResendDue{Key: adapter(0), Token: token} }

func left(ni uuid.UUID, index int, version uint64, activate bool) appnet.PublishedConfig {
	return appnet.PublishedConfig{Scope: ni, Config: netinst.AppAdapterConfig{
		AppUUID: web, Index: index, TargetVersion: version, Activate: activate,
		Spec: netinst.AdapterSpec{NetworkInstance: ni},
	}}
}

func word(ni uuid.UUID) string {
	if ni == blue {
		return "blue"
	}
	return "red"
}

// step is one event and its effects as a sentence: "" for none.
type step struct {
	event appnet.Event
	want  string
}

// play steps a new machine of an unknown app.
func play(t *testing.T, steps ...step) *script {
	t.Helper()
	s := &script{m: appnet.NewMachine(web, appnet.JournalRecord{}, nil)}
	s.play(t, steps...)
	return s
}

// script is a machine under test and the last status that it published.
type script struct {
	m       *appnet.Machine
	last    appnet.AppNetworkStatus
	journal appnet.JournalRecord
}

func (s *script) play(t *testing.T, steps ...step) {
	t.Helper()
	for i, st := range steps {
		var said []string
		for _, f := range s.m.Step(st.event) {
			said = append(said, s.sentence(f))
		}
		if got := strings.Join(said, "; "); got != st.want {
			t.Fatalf("step %d, %T:\n got  %s\n want %s", i+1, st.event, got, st.want)
		}
	}
}

// restart is a crash of the actor: it finds only what it had published.
func (s *script) restart(published ...appnet.PublishedConfig) {
	s.m = appnet.NewMachine(web, s.journal, published)
}

func (s *script) sentence(f appnet.Effect) string {
	switch f := f.(type) {
	case appnet.Record:
		s.journal = f.Journal
		if f.Journal.Deleted {
			return fmt.Sprintf("record v%d deleted", f.Journal.TargetVersion)
		}
		return fmt.Sprintf("record v%d", f.Journal.TargetVersion)
	case appnet.PublishAdapterConfig:
		state := "off"
		if f.Config.Activate {
			state = "on"
		}
		return fmt.Sprintf("%s#%d v%d %s", word(f.Scope), f.Config.Index, f.Config.TargetVersion, state)
	case appnet.UnpublishAdapterConfig:
		return fmt.Sprintf("%s#%d unpublished", word(f.Scope), f.Key.Index)
	case appnet.ResendAdapterConfig:
		return fmt.Sprintf("%s#%d again", word(f.Scope), f.Key.Index)
	case appnet.ResendAfter:
		return fmt.Sprintf("timer %d in %s", f.Token, f.After)
	case appnet.PublishStatus:
		s.last = f.Status
		return s.status(f.Status)
	case appnet.WithdrawStatus:
		return "withdrawn"
	case appnet.Done:
		return "done"
	}
	return fmt.Sprintf("%T", f)
}

func (s *script) status(st appnet.AppNetworkStatus) string {
	words := fmt.Sprintf("web v%d", st.TargetVersion)
	if st.Pending {
		words += " pending"
	}
	if st.Activated {
		words += " active"
	}
	if st.Error != "" {
		words += " (" + st.Error + ")"
	}
	return words
}

// upBlue leads to one active adapter on blue, version 1.
var upBlue = []step{
	{online(blue), ""},
	{on(blue), ""},
	{appnet.Synchronized{}, "record v1; web v1 pending (adapter 0: network instance blue has not answered); blue#0 v1 on"},
	{told(blue, 0, 1, true), "web v1 active"},
}
