# frozen_string_literal: true

require_relative '../../../puppet_x/configdb/puppet_client'

# Hiera data from ConfigDB, as lookup_key. The document is kept for the catalog: it is one request for each uri and
# catalog too, however many keys are asked for. The options are those of configdb::data.
Puppet::Functions.create_function(:'configdb::lookup') do
  dispatch :lookup do
    param 'String[1]', :key
    param 'Hash[String[1], Any]', :options
    param 'Puppet::LookupContext', :context
  end

  # A value that is null is found.
  def lookup(key, options, context)
    unless context.cache_has_key(nil)
      context.cache(nil, PuppetX::ConfigDB::PuppetClient.document(options, context))
    end
    data = context.cached_value(nil)
    context.not_found unless data.include?(key)
    context.interpolate(data[key])
  end
end
