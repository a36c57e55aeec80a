# frozen_string_literal: true

# Looks keys up as `puppet lookup` and `hiera` do, many in one process. It reads what is to be done as JSON from stdin:
#
#   { "dir": folder with environments/ and modules/,
#     "puppet": [{ "environment", "lookups": [{ "key", "merge", "apart" }] }],
#     "hiera": [{ "config", "lookups": [{ "key", "kind" }] }] }
#
# and prints, in that order, what was found: [value], [] for nothing, or the text of an error.

require 'json'
require 'puppet'
require 'puppet/pops'
require 'hiera'

todo = JSON.parse($stdin.read, max_nesting: false)
NODE = 'node-1.domain.tld'

# A value is spelt at once: Puppet may change it in a later lookup.
def outcome
  found = yield
  found == :nothing ? [] : JSON.parse(JSON.generate([found], max_nesting: false), max_nesting: false)
rescue Exception => e # Hiera raises Exception itself
  raise unless e.is_a?(StandardError) || e.instance_of?(Exception)

  e.message
end

def puppet(dir, job)
  environment = Puppet.lookup(:environments).get!(job['environment'])
  Puppet.override(current_environment: environment, trusted_information: Puppet::Context::TrustedInformation.local(nil)) do
    node = Puppet::Node.new(NODE, facts: Puppet::Node::Facts.new(NODE, 'role' => 'compute'), environment: environment)
    node.trusted_data = { 'certname' => NODE }
    compiler = Puppet::Parser::Compiler.new(node)
    found = nil
    compiler.compile do |catalog|
      found = job['lookups'].map do |l|
        invocation = Puppet::Pops::Lookup::Invocation.new(compiler.topscope, {}, {})
        outcome { Puppet::Pops::Lookup.lookup(l['key'], nil, :nothing, true, l['merge'], invocation) }.tap do
          Puppet::Pops::Lookup::LookupAdapter.clear(compiler) if l['apart']
        end
      end
      catalog
    end
    found
  end
end

def hiera(job)
  Hiera::Backend.clear!
  config = job['config'].transform_keys(&:to_sym)
  config.each { |k, v| config[k] = v.transform_keys(&:to_sym) if v.is_a?(Hash) }
  config[:merge_behavior] = config[:merge_behavior].to_sym
  hiera = Hiera.new(config: config)
  job['lookups'].map { |l| outcome { hiera.lookup(l['key'], :nothing, { 'fqdn' => NODE, '::fqdn' => NODE, 'role' => 'compute' }, nil, l['kind'].to_sym) } }
end

dir = todo['dir']
Puppet.initialize_settings(%w[confdir codedir vardir rundir logdir publicdir].flat_map { |name| ["--#{name}", File.join(dir, name)] })
Puppet[:certname] = NODE
Puppet[:basemodulepath] = File.join(dir, 'modules')
Puppet[:environmentpath] = File.join(dir, 'environments')
Puppet[:code] = 'undef'
Puppet[:log_level] = 'err'
Puppet.push_context(Puppet.base_context(Puppet.settings), 'oracle')
found = { 'puppet' => todo['puppet'].map { |job| puppet(dir, job) }, 'hiera' => todo['hiera'].map { |job| hiera(job) } }
puts JSON.generate(found, max_nesting: false)
