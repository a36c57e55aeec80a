# frozen_string_literal: true

# Compiles catalogs as a Puppet server does, in one process. It reads what is to be done as JSON from stdin:
#
#   { "dir", "nodes": [names], "rounds", "environments": [names], "timeout": environment_timeout }
#
# and prints for each environment the milliseconds of each round's catalogs, and how many resources the last one has.

require 'json'
require 'puppet'
require 'puppet/pops'

todo = JSON.parse($stdin.read)
dir = todo['dir']
Puppet.initialize_settings(%w[confdir codedir vardir rundir logdir publicdir].flat_map { |name| ["--#{name}", File.join(dir, name)] })
Puppet[:certname] = 'server.domain.tld'
Puppet[:basemodulepath] = File.join(dir, 'modules')
Puppet[:environmentpath] = File.join(dir, 'environments')
Puppet[:environment_timeout] = todo['timeout']
Puppet[:log_level] = 'err'
Puppet.push_context(Puppet.base_context(Puppet.settings), 'catalog')

def compile(name, of)
  environment = Puppet.lookup(:environments).get!(of)
  Puppet.override(current_environment: environment, trusted_information: Puppet::Context::TrustedInformation.local(nil)) do
    node = Puppet::Node.new(name, facts: Puppet::Node::Facts.new(name, 'role' => 'compute'), environment: environment)
    node.trusted_data = { 'certname' => name }
    Puppet::Parser::Compiler.compile(node).resources.size
  end
end

found = todo['environments'].to_h { |e| [e, { 'ms' => [], 'resources' => 0 }] }
todo['rounds'].times do
  found.each do |of, one| # each round has all of them, so that they share what else the machine does
    one['ms'] << todo['nodes'].map do |name|
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      one['resources'] = compile(name, of)
      (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
    end
  end
end
puts JSON.generate(found)
