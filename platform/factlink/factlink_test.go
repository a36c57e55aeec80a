package factlink

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config/configdb"
	"edgespan/config/httpapi/configdbapi"
)

// db is a ConfigDB that hears when it is asked.
type db struct {
	heard []time.Duration // since began
	urls  []string
	place string
	began time.Time
	fail  error
	hang  bool
	open  int
}

func (d *db) Bulk(ctx context.Context, p configdbapi.Place, b configdbapi.BulkBody,
	_ configdbapi.WriteOptions) (configdbapi.Stored, error) {
	d.heard = append(d.heard, time.Since(d.began))
	d.place = fmt.Sprint(p.Environment, p.Levels, len(b.Resources))
	if d.hang {
		<-ctx.Done()
		return configdbapi.Stored{}, ctx.Err()
	}
	return configdbapi.Stored{Changed: true, Revision: 1}, d.fail
}

func (d *db) Close() { d.open-- }

// sending runs a Sender on a fake clock.
func sending(t *testing.T, f func(s *Sender, d *db, logged func() int)) {
	synctest.Test(t, func(t *testing.T) {
		d := &db{began: time.Now()}
		core, logs := observer.New(zap.ErrorLevel)
		s := New(Options{
			Node: "n1", Log: zap.New(core),
			Collect: func(context.Context) (configdbapi.BulkBody, error) {
				return configdbapi.BulkBody{Resources: map[string]configdbapi.BulkResource{"node/facts": {Values: configdbapi.Document{"a": configdb.JSON("1")}}}}, nil
			},
			Open: func(url string) (Door, error) { d.open++; d.urls = append(d.urls, url); return d, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		f(s, d, logs.Len)
		cancel()
		<-ended
		if d.open != 0 {
			t.Errorf("%d doors are open", d.open)
		}
	})
}

// wait passes time, until all is quiet.
func wait(d time.Duration) { time.Sleep(d); synctest.Wait() }

var settings = Settings{Environment: 7, URLs: []string{"https://a:8443", "https://b:8443"}, Every: time.Hour,
	Config: "md5"}

func TestFactsAreUploadedAtTheStartAndEachPeriod(t *testing.T) {
	sending(t, func(s *Sender, d *db, logged func() int) {
		if wait(24 * time.Hour); len(d.heard) != 0 {
			t.Fatalf("uploads before it was told: %v", d.heard)
		}
		d.began = time.Now()
		s.Set(settings)
		if wait(spread); len(d.heard) != 1 || d.place != "7 [{nodes n1}] 1" {
			t.Fatalf("after the start: %v %s", d.heard, d.place)
		}
		s.Set(settings) // the same again is no reason
		if wait(24 * time.Hour); len(d.heard) < 22 || len(d.heard) > 28 {
			t.Errorf("%d uploads in a day: %v", len(d.heard), d.heard)
		}
		for i := range d.heard[1:] {
			if gap := d.heard[i+1] - d.heard[i]; gap < 54*time.Minute || gap > 66*time.Minute {
				t.Errorf("the next after %v", gap)
			}
		}
		n := len(d.heard)
		other := settings
		other.Config = "another"
		s.Set(other)
		if wait(spread); len(d.heard) != n+1 {
			t.Errorf("a config that changed: %d uploads", len(d.heard)-n)
		}
		s.Set(Settings{})
		n = len(d.heard)
		if wait(24 * time.Hour); len(d.heard) != n || logged() != 0 {
			t.Errorf("told to stop: %d uploads, %d errors", len(d.heard)-n, logged())
		}
	})
}

func TestAFailureIsTriedAgainElsewhereAndLater(t *testing.T) {
	sending(t, func(s *Sender, d *db, logged func() int) {
		d.fail = errors.New("no such resource")
		s.Set(settings)
		wait(spread + time.Minute)
		if len(d.heard) < 4 || d.urls[0] == d.urls[1] || d.urls[0] != d.urls[2] {
			t.Errorf("first tries: %v %v", d.heard, d.urls)
		}
		n := len(d.heard)
		wait(24 * time.Hour)
		if tries := len(d.heard) - n; tries < 140 || tries > 300 {
			t.Errorf("%d tries in a day", tries)
		}
		if logged() != 1 {
			t.Errorf("one failure is %d lines", logged())
		}
		d.fail = nil
		n = len(d.heard)
		if wait(failedWaits.Max + time.Minute); len(d.heard) != n+1 {
			t.Errorf("after it is mended: %d uploads", len(d.heard)-n)
		}
	})
}

func TestOneThatHangsIsLeft(t *testing.T) {
	sending(t, func(s *Sender, d *db, _ func() int) {
		d.hang = true
		s.Set(settings)
		wait(spread)
		other := settings
		other.URLs = []string{"https://c:8443"}
		s.Set(other) // does not block
		d.hang = false
		wait(timeout + spread + time.Minute)
		if last := d.urls[len(d.urls)-1]; last != "https://c:8443" {
			t.Errorf("asked %v", d.urls)
		}
	})
}
