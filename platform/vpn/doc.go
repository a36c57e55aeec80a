// Package vpn keeps the tunnels of networks of type vpn: it leads each operation to the package of the tunnel's method
// (platform/vpn/wireguard, platform/vpn/ipsec), and replaces a tunnel of another method.
//
// It never decides whether a network has a tunnel, and it owns nothing on the link: addresses, routes and rules are
// objects of their own.
package vpn
