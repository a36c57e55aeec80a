# frozen_string_literal: true

require_relative '../../../puppet_x/configdb/puppet_client'

# Hiera data from ConfigDB, as data_hash: one request for each uri and catalog.
#
# uri is the address of a resource's values, with ?effective; or, with the option resources, that of a place
# (.../environments/1/nodes/NAME), all of whose resources come in one answer.
Puppet::Functions.create_function(:'configdb::data') do
  dispatch :data do
    param 'Hash[String[1], Any]', :options
    param 'Puppet::LookupContext', :context
  end

  # Puppet interpolates what is in the data.
  def data(options, context)
    PuppetX::ConfigDB::PuppetClient.document(options, context)
  end
end
