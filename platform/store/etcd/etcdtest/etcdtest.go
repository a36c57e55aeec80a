// Package etcdtest runs an etcd server in the process of a test (integration/cluster runs three processes).
//
// No program links it. It only listens on loopback, on ports that the kernel chooses.
package etcdtest

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// timeout bounds every wait.
const timeout = time.Minute

// Server is a cluster of one member in this process.
type Server struct {
	Endpoint string
	etcd     *embed.Etcd
}

// Serve runs a server in a folder until Close. noSync acknowledges without a sync.
func Serve(dir string, noSync bool) (*Server, error) {
	free, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve etcd: %w", err)
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.ZapLoggerBuilder = dir, noSync, embed.NewZapLoggerBuilder(zap.NewNop())
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*free}, []url.URL{*free}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*free}, []url.URL{*free}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("serve etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return &Server{"http://" + server.Clients[0].Addr().String(), server}, nil
	case err = <-server.Err():
	case <-time.After(timeout):
		err = errors.New("not ready after a minute")
	}
	server.Close()
	return nil, fmt.Errorf("serve etcd: %w", err)
}

// Close stops the server.
func (s *Server) Close() { s.etcd.Close() }
